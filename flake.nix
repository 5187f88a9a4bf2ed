{
  description = "Congestion-controlled, encrypted trunks between sites";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      each = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ];
      # The gateway, or with `laboratory` also the commands lab, demo and bench.
      build =
        pkgs: laboratory:
        pkgs.rustPlatform.buildRustPackage {
          pname = if laboratory then "trunkline-lab" else "trunkline";
          version = (fromTOML (builtins.readFile ./Cargo.toml)).workspace.package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          buildAndTestSubdir = "crates/trunkline";
          buildNoDefaultFeatures = !laboratory;
          nativeBuildInputs = [ pkgs.cmake pkgs.installShellFiles ];
          # The tests need root, TUN and network namespaces.
          doCheck = false;
          postInstall = ''
            $out/bin/trunkline man --out man
            installManPage man/*
            for shell in bash zsh fish; do $out/bin/trunkline completions $shell > trunkline.$shell; done
            installShellCompletion trunkline.{bash,zsh,fish}
            substitute dist/trunkline@.service trunkline@.service --replace-fail /usr/bin/trunkline $out/bin/trunkline
            install -D -m 0644 -t $out/lib/systemd/system trunkline@.service
          '';
          meta = {
            description = "Gateway for congestion-controlled, encrypted trunks between sites";
            license = with pkgs.lib.licenses; [ asl20 mit ];
            platforms = pkgs.lib.platforms.linux;
            mainProgram = "trunkline";
          };
        };
    in
    {
      packages = each (system: rec {
        trunkline = build nixpkgs.legacyPackages.${system} false;
        trunkline-lab = build nixpkgs.legacyPackages.${system} true;
        default = trunkline;
      });

      # services.trunkline.sites = [ "a" ] runs /etc/trunkline/a.toml.
      nixosModules.default =
        { config, lib, pkgs, ... }:
        let
          options = config.services.trunkline;
        in
        {
          options.services.trunkline = {
            sites = lib.mkOption {
              type = lib.types.listOf lib.types.str;
              default = [ ];
              example = [ "a" ];
              description = "Sites whose gateways run on this machine: `a` is the file /etc/trunkline/a.toml.";
            };
            package = lib.mkOption {
              type = lib.types.package;
              default = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
              description = "The package that the gateways are of.";
            };
          };
          config = lib.mkIf (options.sites != [ ]) {
            environment.systemPackages = [ options.package ];
            systemd.packages = [ options.package ];
            systemd.services = lib.genAttrs (map (site: "trunkline@${site}") options.sites) (_: {
              overrideStrategy = "asDropin";
              wantedBy = [ "multi-user.target" ];
            });
            users.groups.trunkline = { };
            users.users.trunkline = {
              isSystemUser = true;
              group = "trunkline";
            };
          };
        };
    };
}
