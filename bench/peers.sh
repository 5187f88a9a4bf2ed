#!/usr/bin/env bash
# peers.sh - Trunkline next to other IP-over-TCP (and two IP-over-UDP) tunnels
# between the same two gateways.  Each figure is also given as a ratio to plain
# routing in the same run on the same machine.  bench/README.md says how to read
# the result.
#
#   A (client) -- veth -- T1 (gateway) == WAN == T2 (gateway) -- veth -- X (server)
#
# The WAN is a veth pair, as fast as the CPU: what is measured is what a tunnel
# costs.  What tunnels do on links with a rate, a queue and losses is measured by
# the experiment bench-tunnels (trunkline lab run bench-tunnels --engine testbed).
#
# The hosts are network namespaces that this script makes and removes.  Nothing
# leads out of them: no default route, no device in the machine's own namespace,
# addresses of 198.18.0.0/15 (RFC 2544, for benchmarks) only.
#
# The gateways of a tunnel have no route to the far site but the one into the
# tunnel: a figure cannot come from traffic that passed it by.
#
# Usage (as root):
#   peers.sh                      all peers, 3 runs
#   peers.sh --list               names of the peers
#   peers.sh --install            apt-get install the peers' packages, then stop
#   PEERS="direct vtun" RUNS=1 T=3 peers.sh
# Knobs (environment):
#   PEERS   peers to run ('direct' is always run first: the ratios need it)
#   RUNS    runs; the tables give medians (3)
#   T       seconds of each TCP throughput test (10)
#   TU      seconds of each small-packet flood (5)
#   CC      congestion control inside all namespaces (cubic)
#   TRUNKLINE   the trunkline binary (target/release/trunkline of this checkout)
#   OUT     directory for the CSV files and logs (a new one under /tmp)
#   EXTRA   a file to source with more start_NAME functions, for further peers
#           ("peers" below says what one has to do)
#   FMAX    a test during which other processes of this machine used more than this
#           % of its CPU time is done again, up to TRIES times (10, 3); each waits
#           up to QUIET seconds for the machine to be that quiet (60)
#   WG_GO_NEW   a newer wireguard-go binary (one with TUN/UDP offloads) to
#           measure as peer wireguard_go_new; without it that peer is skipped
#
# Needs: bash, iproute2, jq, awk, ping (iputils), iperf3, ethtool, openssl and
# the peers (--install).  netem, RED and fq are not needed.
#
# What is measured, per peer and run
#     tcp1, tcp10   goodput at the receiver, 1 and 10 parallel flows, Mbit/s
#     cpu_gb        CPU seconds of the tunnel processes (both ends, user+system,
#                   /proc/PID/stat) per GB (1e9 bytes) of goodput, during tcp1
#     cpu_t1_gb, cpu_t2_gb   the same per end
#     sys_gb        busy CPU seconds of the whole machine per GB during tcp1
#     cpu10_gb      as cpu_gb, during tcp10
#     pps           64-byte-payload UDP datagrams delivered per second under an
#                   unpaced flood, from X's UDP counters in mid-flood
#     pps_cpu       tunnel CPU microseconds per delivered datagram
#     rss           VmRSS of the tunnel processes, both ends summed, after tcp10, kB
#     idle50/idle99 ping RTT, us, idle;   load50/load99: under one bulk TCP flow
#     jain10, retr10  Jain's fairness index over the 10 flows; their retransmits
#   foreign         most CPU, in % of the machine, that processes not of this
#                   script used during any test that was kept;  steal   % in tcp1
#
# What stands unquoted is a number, a name of ours without blanks, or a list
# that is to be split; after "a && b ||" stands what ends the script or function
# whichever of the two failed; awk's programs have dollars of their own.
# shellcheck disable=SC2086,SC2015,SC2016
set -uo pipefail
export LC_ALL=C

RUNS=${RUNS:-3}; T=${T:-10}; TU=${TU:-5}; CC=${CC:-cubic}
FMAX=${FMAX:-10}; TRIES=${TRIES:-3}; QUIET=${QUIET:-60}
WG_GO_NEW=${WG_GO_NEW:-}; EXTRA=${EXTRA:-}
TRUNKLINE=${TRUNKLINE:-$(dirname "$(readlink -f "$0")")/../target/release/trunkline}
ALL="direct direct_nogso trunkline_none trunkline_tls trunkline_quic trunkline_streams openvpn_tcp_none openvpn_tcp_gcm openvpn_udp_gcm vtun vtun_aes ssh_gcm tinc_tcp wireguard_go wireguard_go_new socat_tun"
PEERS=${PEERS:-$ALL}
PKGS="iperf3 openvpn vtun tinc wireguard-go wireguard-tools socat openssh-server openssh-client ethtool jq iputils-ping iproute2 openssl"

die() { echo "peers.sh: $*" >&2; exit 1; }
say() { echo "[$(date +%T)] $*" >&2; }

case ${1:-} in
  --list) echo $ALL; exit 0;;
  --install)
    # RUNLEVEL=1 and, where it is honoured, the policy file keep the packages
    # from starting their daemons on this machine.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $PKGS; exit $?;;
  '') ;;
  *) die "unknown argument $1 (see the head of this file)";;
esac
[ "$(id -u)" = 0 ] || die "needs root"
for c in ip tc jq awk ping iperf3 ethtool; do
  command -v $c >/dev/null || die "$c is missing (try --install)"; done
[ -c /dev/net/tun ] || die "/dev/net/tun is missing"

P=tpb$$                                # prefix of everything that is ours
NA=$P-A NT1=$P-T1 NT2=$P-T2 NX=$P-X
A_IP=198.18.1.2  A_GW=198.18.1.1       # A -- T1
W1=198.18.2.1    W2=198.18.2.2         # T1 == T2, the WAN
X_GW=198.18.3.1  X_IP=198.18.3.2       # T2 -- X
A_NET=198.18.1.0/24 X_NET=198.18.3.0/24
I1=198.18.4.1    I2=198.18.4.2         # inside the tunnel
OUT=${OUT:-$(mktemp -d /tmp/peers.XXXXXX)}; mkdir -p "$OUT" || die "cannot make $OUT"
D=$(mktemp -d /tmp/$P.XXXXXX) || die "mktemp"          # keys, configs, logs
RAW=$OUT/raw.csv SUM=$OUT/summary.csv
TICK=$(getconf CLK_TCK); NCPU=$(nproc)

# ---------------------------------------------------------------- namespaces
# Ends the processes of one of our namespaces, by pid.  A namespace with our
# prefix holds nothing but what this script started in it.
ns_kill() {
  local p i
  for p in $(ip netns pids "$1" 2>/dev/null); do kill "$p" 2>/dev/null; done
  for i in 1 2 3 4 5 6 7 8 9 10; do
    [ -z "$(ip netns pids "$1" 2>/dev/null)" ] && return
    sleep 0.1
  done
  for p in $(ip netns pids "$1" 2>/dev/null); do kill -9 "$p" 2>/dev/null; done
}
teardown() {
  local n
  for n in $NA $NT1 $NT2 $NX; do
    ip netns list | awk '{print $1}' | grep -qx "$n" || continue
    ns_kill "$n"; ip netns del "$n"
  done
  wait 2>/dev/null
}
# A namespace may make only an *allowed* congestion control its default, and the
# list is machine-wide: add $CC where it is missing, and take it out at the end.
CC_KEY=net.ipv4.tcp_allowed_congestion_control CC_ADDED=
allow_cc() {
  case " $(sysctl -n $CC_KEY) " in *" $CC "*) return;; esac
  sysctl -qw $CC_KEY="$(sysctl -n $CC_KEY) $CC" || die "the kernel lacks congestion control $CC"
  CC_ADDED=1
}
disallow_cc() {
  [ -n "$CC_ADDED" ] && sysctl -qw $CC_KEY="$(sysctl -n $CC_KEY | tr ' ' '\n' | grep -vx "$CC" | tr '\n' ' ')"
}
on_exit() { trap - EXIT INT TERM; teardown; disallow_cc; rm -rf "$D"; }
trap on_exit EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

# What an earlier, killed run of this script left: namespaces whose maker's pid
# (it is in the name) is no longer alive.
for n in $(ip netns list | awk '$1 ~ /^tpb[0-9]+-(A|T1|T2|X|W)$/ {print $1}'); do
  o=${n#tpb}; o=${o%%-*}
  [ -d "/proc/$o" ] || { ns_kill "$n"; ip netns del "$n"; }
done

in_() { local n=$1; shift; ip netns exec "$n" "$@"; }
build() {
  local n
  for n in $NA $NT1 $NT2 $NX; do
    ip netns add "$n" && in_ "$n" ip link set lo up &&
    in_ "$n" sysctl -qw net.ipv4.tcp_congestion_control="$CC" net.ipv4.tcp_no_metrics_save=1 \
      net.ipv6.conf.all.disable_ipv6=1 net.ipv4.conf.all.rp_filter=0 \
      net.ipv4.conf.default.rp_filter=0 || die "cannot set up $n"
  done
  ip -n $NA  link add eth0 type veth peer name lan netns $NT1
  ip -n $NT1 link add wan type veth peer name wan netns $NT2
  ip -n $NX  link add eth0 type veth peer name lan netns $NT2
  ip -n $NA  addr add $A_IP/24 dev eth0; ip -n $NT1 addr add $A_GW/24 dev lan
  ip -n $NT1 addr add $W1/24 dev wan;    ip -n $NT2 addr add $W2/24 dev wan
  ip -n $NX  addr add $X_IP/24 dev eth0; ip -n $NT2 addr add $X_GW/24 dev lan
  for n in "$NA eth0" "$NX eth0" "$NT1 lan" "$NT1 wan" "$NT2 lan" "$NT2 wan"; do
    set -- $n; ip -n $1 link set $2 up; done
  in_ $NT1 sysctl -qw net.ipv4.ip_forward=1; in_ $NT2 sysctl -qw net.ipv4.ip_forward=1
  ip -n $NA route add $X_NET via $A_GW; ip -n $NX route add $A_NET via $X_GW
}
# --------------------------------------------------------- helpers for peers
# bg NS NAME CMD...: a tunnel daemon, in the foreground of a child of ours
bg() { local n="$1" l="$2"; shift 2; ip netns exec "$n" "$@" >"$D/$l.log" 2>&1 </dev/null & }
wait_dev() {  # NS DEV
  local i; for i in $(seq 100); do ip -n "$1" link show "$2" >/dev/null 2>&1 && return 0; sleep 0.1; done
  say "no device $2 in $1"; return 1
}
tun_up() {    # DEV1 DEV2 [MTU]: address both ends' devices, route the sites into them
  local d1=$1 d2=$2 mtu=${3:-1500}
  wait_dev $NT1 "$d1" && wait_dev $NT2 "$d2" || return 1
  ip -n $NT1 addr replace $I1 peer $I2 dev "$d1"; ip -n $NT2 addr replace $I2 peer $I1 dev "$d2"
  ip -n $NT1 link set "$d1" mtu $mtu up; ip -n $NT2 link set "$d2" mtu $mtu up
  ip -n $NT1 route replace $X_NET dev "$d1"; ip -n $NT2 route replace $A_NET dev "$d2"
}
have() { local c; for c; do command -v "$c" >/dev/null || { say "  $c is missing: skipped"; return 1; }; done; }
certs() {     # two self-signed certificates, known to each other by fingerprint
  local i; for i in 1 2; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
      -subj "/CN=t$i" -keyout "$D/t$i.key" -out "$D/t$i.crt" 2>/dev/null || return 1
    eval "FP$i=\$(openssl x509 -in $D/t$i.crt -noout -fingerprint -sha256 | cut -d= -f2)"
  done
}

# --------------------------------------------------------------------- peers
# start_NAME starts the tunnel's two ends in $NT1 and $NT2 and leaves both
# sites' routes pointing into it (tun_up does).  Every process of $NT1 and $NT2
# counts as the tunnel's.  MTU 1500 inside the TCP tunnels: a byte stream has
# no need to leave room for encapsulation.
start_direct() {
  ip -n $NT1 route add $X_NET via $W2; ip -n $NT2 route add $A_NET via $W1
}
start_direct_nogso() {   # the same with every packet a wire-size packet
  local n; start_direct
  for n in "$NA eth0" "$NX eth0" "$NT1 lan" "$NT1 wan" "$NT2 lan" "$NT2 wan"; do
    set -- $n; in_ $1 ethtool -K $2 tso off gso off gro off >/dev/null 2>&1; done
}
trunkline_() { # tls|none [KEYS of one class for everything].  The gateways make routes and set the MTU: no tun_up
  [ -x "$TRUNKLINE" ] || { say "  no program $TRUNKLINE (TRUNKLINE=path, or build it): skipped"; return 1; }
  local i o pub=()
  for i in 1 2; do
    [ -s "$D/trunk$i.key" ] || (umask 077; "$TRUNKLINE" genkey >"$D/trunk$i.key") || return 1
    pub[i]=$("$TRUNKLINE" pubkey <"$D/trunk$i.key") || return 1
  done
  for i in 1 2; do
    o=$((3 - i))
    {
      echo "name = \"t$i\""
      echo "private_key_file = \"trunk$i.key\""
      echo "encryption = \"$1\""
      [ $i = 2 ] && echo "listen = [\"$W2:4600\"]"
      printf '[tun]\nname = "tunp"\n[control]\nsocket = "%s"\n' "$D/trunk$i.sock"
      [ -z "${2:-}" ] || printf '[[classes]]\nname = "all"\n%s\n' "$2"
      printf '[[peers]]\nname = "t%s"\npublic_key = "%s"\n' $o "${pub[o]}"
      if [ $i = 1 ]; then
        printf 'endpoint = "%s:4600"\nroutes = ["%s"]\n' $W2 $X_NET
      else
        printf 'routes = ["%s"]\n' $A_NET
      fi
    } >"$D/trunk$i.toml"
  done
  bg $NT2 trunk2 "$TRUNKLINE" up "$D/trunk2.toml"
  sleep 0.4
  bg $NT1 trunk1 "$TRUNKLINE" up "$D/trunk1.toml"
  wait_dev $NT1 tunp && wait_dev $NT2 tunp
}
start_trunkline_none() { trunkline_ none; }
start_trunkline_tls() { trunkline_ tls; }
start_trunkline_quic() { trunkline_ tls 'transport = "quic"'; }
start_trunkline_streams() { trunkline_ tls $'transport = "quic"\ndelivery = "reliable"'; }

ovpn() {      # udp|tcp, then options of both ends; T1_OPTS and T2_OPTS of one end
  local proto=$1 p1 p2; shift
  case $proto in tcp) p1=tcp-client p2=tcp-server;; udp) p1=udp p2=udp;; esac
  local c="--dev tunp --dev-type tun --persist-tun --verb 1 --auth-nocache --disable-dco"
  bg $NT2 ovpn2 openvpn $c --proto $p2 --local $W2 --port 1194 --ifconfig $I2 $I1 $T2_OPTS "$@"
  sleep 0.3
  bg $NT1 ovpn1 openvpn $c --proto $p1 --remote $W2 1194 --nobind --ifconfig $I1 $I2 $T1_OPTS "$@"
  tun_up tunp tunp
}
ovpn_gcm() {
  certs || return 1
  T1_OPTS="--tls-client --cert $D/t1.crt --key $D/t1.key --peer-fingerprint $FP2"
  T2_OPTS="--tls-server --dh none --cert $D/t2.crt --key $D/t2.key --peer-fingerprint $FP1"
  ovpn "$1" --data-ciphers AES-256-GCM --cipher AES-256-GCM
}
start_openvpn_tcp_gcm() { have openvpn openssl && ovpn_gcm tcp; }
start_openvpn_udp_gcm() { have openvpn openssl && ovpn_gcm udp; }
start_openvpn_tcp_none() { have openvpn && T1_OPTS='' T2_OPTS='' && ovpn tcp --cipher none --auth none; }

vtun_() {     # the 'encrypt' setting
  have vtund || return 1
  mkdir -p /var/lock/vtund /var/log/vtund 2>/dev/null
  cat >"$D/vtund.conf" <<E
options { port 5000; timeout 60; syslog daemon; }
default { compress no; speed 0; stat no; }
$P { passwd bench; type tun; device tunp; proto tcp; encrypt $1; keepalive yes; up { }; down { }; }
E
  bg $NT2 vtun2 vtund -n -s -f "$D/vtund.conf" -L $W2 -P 5000
  sleep 0.5
  bg $NT1 vtun1 vtund -n -p -f "$D/vtund.conf" -P 5000 $P $W2
  tun_up tunp tunp
}
start_vtun() { vtun_ no; }
start_vtun_aes() { vtun_ aes256cbc; }

start_ssh_gcm() {
  have ssh sshd ssh-keygen || return 1
  mkdir -p /run/sshd                      # sshd's privilege separation wants it
  rm -f "$D"/hk* "$D"/uk* "$D/kh"         # a changed host key would make ssh refuse the tunnel
  ssh-keygen -q -t ed25519 -N '' -f "$D/hk"; ssh-keygen -q -t ed25519 -N '' -f "$D/uk"
  cp "$D/uk.pub" "$D/ak"
  cat >"$D/sshd.conf" <<E
ListenAddress $W2:2222
HostKey $D/hk
AuthorizedKeysFile $D/ak
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
PermitTunnel point-to-point
E
  bg $NT2 sshd "$(command -v sshd)" -D -e -f "$D/sshd.conf"
  sleep 0.4
  bg $NT1 ssh ssh -F none -N -T -p 2222 -i "$D/uk" -o IdentityAgent=none -o BatchMode=yes \
    -o StrictHostKeyChecking=no -o UserKnownHostsFile="$D/kh" -o Tunnel=point-to-point \
    -c aes256-gcm@openssh.com -w 7:7 root@$W2
  tun_up tun7 tun7
}

start_tinc_tcp() {
  have tincd || return 1
  local i o f
  for i in 1 2; do
    o=$((3 - i)); f=$D/tinc$i; rm -rf "$f"; mkdir -p "$f/hosts"
    printf 'Name = t%s\nMode = router\nTCPOnly = yes\nDeviceType = tun\nInterface = tunp\nAddressFamily = ipv4\n' $i >"$f/tinc.conf"
    printf '#!/bin/sh\nexit 0\n' >"$f/tinc-up"; chmod +x "$f/tinc-up"
    tincd -c "$f" -K2048 </dev/null >/dev/null 2>&1
  done
  echo "ConnectTo = t2" >>"$D/tinc1/tinc.conf"
  echo "BindToAddress = $W2 655" >>"$D/tinc2/tinc.conf"
  { echo "TCPOnly = yes"; echo "Subnet = $A_NET"; echo "Subnet = $I1/32"; cat "$D/tinc1/hosts/t1"; } >"$D/h1"
  { echo "TCPOnly = yes"; echo "Address = $W2"; echo "Subnet = $X_NET"; echo "Subnet = $I2/32"; cat "$D/tinc2/hosts/t2"; } >"$D/h2"
  for i in 1 2; do cp "$D/h1" "$D/tinc$i/hosts/t1"; cp "$D/h2" "$D/tinc$i/hosts/t2"; done
  bg $NT2 tinc2 tincd -c "$D/tinc2" -D --pidfile="$D/tinc2.pid"
  sleep 0.5
  bg $NT1 tinc1 tincd -c "$D/tinc1" -D --pidfile="$D/tinc1.pid"
  tun_up tunp tunp
}

wg_() {       # the wireguard-go binary.  Its control sockets share one folder, hence two names.
  have wg "$1" || return 1
  local d1=w1p$$ d2=w2p$$ k1 k2
  k1=$(wg genkey); k2=$(wg genkey)
  bg $NT1 wg1 env LOG_LEVEL=error WG_PROCESS_FOREGROUND=1 "$1" -f $d1
  bg $NT2 wg2 env LOG_LEVEL=error WG_PROCESS_FOREGROUND=1 "$1" -f $d2
  wait_dev $NT1 $d1 && wait_dev $NT2 $d2 || return 1
  sleep 0.5
  in_ $NT1 wg set $d1 listen-port 51820 private-key <(echo "$k1") peer "$(echo "$k2" | wg pubkey)" endpoint $W2:51820 allowed-ips 198.18.0.0/16 || return 1
  in_ $NT2 wg set $d2 listen-port 51820 private-key <(echo "$k2") peer "$(echo "$k1" | wg pubkey)" endpoint $W1:51820 allowed-ips 198.18.0.0/16 || return 1
  tun_up $d1 $d2 1420
}
start_wireguard_go() { wg_ wireguard-go; }
start_wireguard_go_new() {
  [ -n "$WG_GO_NEW" ] || { say "  WG_GO_NEW is not set: skipped"; return 1; }
  wg_ "$WG_GO_NEW"
}

start_socat_tun() {   # no framing: packets that TCP joins or splits are lost
  have socat || return 1
  local t="TUN,tun-name=tunp,tun-type=tun,iff-no-pi,iff-up"
  bg $NT2 socat2 socat TCP-LISTEN:5001,bind=$W2,nodelay $t
  sleep 0.4
  bg $NT1 socat1 socat TCP:$W2:5001,nodelay $t
  tun_up tunp tunp
}

# shellcheck source=/dev/null
[ -n "$EXTRA" ] && { . "$EXTRA" || die "cannot source $EXTRA"; }

# ------------------------------------------------------------- measurements
now() { echo "${EPOCHREALTIME/,/.}"; }
rec() { echo "$RUN,$PEER,$1,$2" >>"$RAW"; }       # metric value
calc() { awk -v OFMT=%.6g -v CONVFMT=%.6g "BEGIN{print ($1)}" 2>/dev/null; }
ns_cpu() {    # CPU ticks of all processes of a namespace so far
  local p s=0 l; local -a a
  for p in $(ip netns pids "$1" 2>/dev/null); do
    l=$(cat /proc/$p/stat 2>/dev/null) || continue
    read -ra a <<<"${l##*) }"; s=$((s + a[11] + a[12]))
  done; echo $s
}
ns_rss() {
  local p s=0 k
  for p in $(ip netns pids "$1" 2>/dev/null); do
    k=$(awk '/^VmRSS/{print $2}' /proc/$p/status 2>/dev/null); s=$((s + ${k:-0}))
  done; echo $s
}
busy() { awk '/^cpu /{print $2+$3+$4+$7+$8, $9, $5+$6; exit}' /proc/stat; }   # busy steal idle, ticks

# CPU ticks so far of everything that is neither this script, its descendants nor
# a kernel thread.  Counting reaped children's time with their parents keeps the
# sum right when processes come and go.
foreign() {
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v me=$$ '
    {pid=$1; sub(/.*\) /,""); par[pid]=$2; t[pid]=$12+$13+$14+$15}
    END{for(p in t){q=p+0; while(q>2 && q!=me) q=par[q]+0; if(q!=me && q!=2) s+=t[p]} print s+0}'
}
quiet() {     # waits for the others to be quiet for a second; gives up after QUIET s
  local i f
  for i in $(seq $QUIET); do
    f=$(foreign); sleep 1; f=$(($(foreign) - f))
    [ $((f * 100)) -le $((FMAX * TICK * NCPU)) ] && return
  done
}
FWORST=0
guard() {     # CMD...: a test; done again when others disturbed it
  local k f t n pct
  for k in $(seq $TRIES); do
    quiet; n=$(wc -l <"$RAW"); f=$(foreign); t=$(now)
    "$@"
    pct=$(calc "100*($(foreign)-$f)/$TICK/$NCPU/($(now)-$t)")
    [ "$(calc "($pct<=$FMAX)")" = 1 ] && break
    [ $k = $TRIES ] && { say "  $PEER: $*: kept although others used $pct % of the CPU"; break; }
    say "  $PEER: $*: others used $pct % of the CPU: again"
    head -n "$n" "$RAW" >"$RAW.tmp" && mv "$RAW.tmp" "$RAW"
  done
  [ "$(calc "($pct>$FWORST)")" = 1 ] && FWORST=$pct
  return 0
}

PORT=5200
iperf() {     # NAME OPTIONS...: a server of its own for each test; JSON in $D/NAME.json
  local name=$1 sp secs; shift; PORT=$((PORT + 1))
  ip netns exec $NX iperf3 -s -1 -p $PORT >/dev/null 2>&1 </dev/null & sp=$!
  sleep 0.4
  secs=$((T + 15))
  timeout -k 2 $secs ip netns exec $NA iperf3 -c $X_IP -p $PORT -J --connect-timeout 5000 "$@" >"$D/$name.json" 2>"$D/$name.err"
  kill $sp 2>/dev/null; wait $sp 2>/dev/null
  return 0
}
# NAME -P n: a TCP test with everything that belongs to it
tcp_test() {
  local m=$1 n=$2 c1 c2 d1 d2 b0 b1 j=$D/tcp.json bytes bps
  c1=$(ns_cpu $NT1); c2=$(ns_cpu $NT2); b0=$(busy)
  iperf tcp -t $T -P "$n"
  d1=$(ns_cpu $NT1); d2=$(ns_cpu $NT2); b1=$(busy)
  bps=$(jq -r '.end.sum_received.bits_per_second // empty' $j 2>/dev/null)
  bytes=$(jq -r '.end.sum_received.bytes // empty' $j 2>/dev/null)
  if [ -z "$bps" ]; then
    say "  $PEER $m: no result ($(jq -r '.error // "no answer in time"' $j 2>/dev/null))"; return
  fi
  rec $m "$(calc "$bps/1e6")"
  rec retr${m#tcp} "$(jq -r '.end.sum_sent.retransmits // 0' $j)"
  [ "$n" -gt 1 ] && rec jain$n "$(jq -r '[.end.streams[].receiver.bytes] | (add*add)/(length*(map(.*.)|add)) ' $j)"
  [ "$(calc "($bytes>1000000)")" = 1 ] || return
  set -- $b0 $b1
  if [ "$m" = tcp1 ]; then
    rec cpu_gb    "$(calc "($d1-$c1+$d2-$c2)/$TICK/($bytes/1e9)")"
    rec cpu_t1_gb "$(calc "($d1-$c1)/$TICK/($bytes/1e9)")"
    rec cpu_t2_gb "$(calc "($d2-$c2)/$TICK/($bytes/1e9)")"
    rec sys_gb    "$(calc "($4-$1)/$TICK/($bytes/1e9)")"
    rec steal     "$(calc "100*($5-$2)/($4-$1+$5-$2+$6-$3)")"
  else
    rec cpu10_gb  "$(calc "($d1-$c1+$d2-$c2)/$TICK/($bytes/1e9)")"
  fi
}
udp_in() { in_ $NX awk '/^Udp:/ && $2 ~ /^[0-9]/ {print $2}' /proc/net/snmp; }
udp_out() { in_ $NA awk '/^Udp:/ && $2 ~ /^[0-9]/ {print $5}' /proc/net/snmp; }
pps_test() {  # X's UDP counter between 1 s and TU-1 s into the flood
  local p t0 t1 n0 n1 o0 o1 c0 c1
  iperf udp -u -l 64 -b 0 -t $TU & p=$!
  sleep 1.6
  c0=$(($(ns_cpu $NT1) + $(ns_cpu $NT2))); t0=$(now); n0=$(udp_in); o0=$(udp_out)
  sleep $((TU - 2))
  t1=$(now); n1=$(udp_in); o1=$(udp_out); c1=$(($(ns_cpu $NT1) + $(ns_cpu $NT2)))
  wait $p
  rec pps "$(calc "($n1-$n0)/($t1-$t0)")"
  rec pps_sent "$(calc "($o1-$o0)/($t1-$t0)")"
  [ "$n1" -gt "$n0" ] && rec pps_cpu "$(calc "($c1-$c0)/$TICK*1e6/($n1-$n0)")"
}
ping_test() { # PREFIX50/99-NAME INTERVAL COUNT
  local n=$3 w
  w=$(awk -v i=$2 -v n=$n 'BEGIN{print int(i*n)+3}')
  timeout -k 2 $((w + 5)) ip netns exec $NA ping -n -i $2 -c $n -w $w $X_IP >"$D/ping.out" 2>&1
  sed -n 's/.*time=\([0-9.]*\) ms.*/\1/p' "$D/ping.out" | sort -n | awk -v n=$n -v m=$1 -v r="$RUN,$PEER," '
    {v[NR]=$1*1000}
    END {if (NR>=n/10) {print r m "50," v[int((NR+1)/2)]; print r m "99," v[int(NR*.99+.999)]}
         print r m "loss," 100*(n-NR)/n}' >>"$RAW"
}
load_test() { # PREFIX: ping under one bulk TCP flow
  local p
  iperf bulk -t 7 & p=$!
  sleep 2.4
  ping_test $1 0.004 1000
  wait $p
}
reach() { local i; for i in $(seq 40); do in_ $NA ping -n -c1 -W1 $X_IP >/dev/null 2>&1 && return 0; sleep 0.25; done; return 1; }

up() {        # builds the hosts and starts the peer
  build
  start_$PEER && reach && return 0
  say "  $PEER: no tunnel; the ends' logs, if any:"; tail -n 5 "$D"/*.log >&2 2>/dev/null
  teardown; rm -f "$D"/*.log; return 1
}
measure() {
  RUN=$1 PEER=$2 FWORST=0
  if up; then
    guard ping_test idle 0.002 1000
    guard tcp_test tcp1 1
    guard tcp_test tcp10 10
    rec rss $(($(ns_rss $NT1) + $(ns_rss $NT2)))
    guard load_test load
    guard pps_test
    # let a flooded tunnel drain, then see whether it lives
    sleep 1; reach || { say "  $PEER: dead after the tests"; rec dead 1; }
    teardown; rm -f "$D"/*.log
  fi
  rec foreign $FWORST
}

# ------------------------------------------------------------------- report
# summary.csv: peer,metric,median,min,max,runs,ratio (median over the runs of
# value / direct's value in that run), diff (the same for value - direct's)
summarize() {
  awk -F, -v OFS=, '
    function sortn(a,n, i,j,t){for(i=2;i<=n;i++){t=a[i];for(j=i-1;j>0&&a[j]>t;j--)a[j+1]=a[j];a[j+1]=t}}
    function med(a,n){sortn(a,n);return n%2?a[(n+1)/2]:(a[n/2]+a[n/2+1])/2}
    NR==1{next}
    {v[$1,$2,$3]=$4; if(!(($2,$3) in seen)){seen[$2,$3]=1;ord[++k]=$2 SUBSEP $3}; if($1>mr)mr=$1}
    END{print "peer","metric","median","min","max","runs","ratio_to_direct","minus_direct"
      for(q=1;q<=k;q++){split(ord[q],pm,SUBSEP);p=pm[1];m=pm[2];n=0;r=0;delete a;delete b;delete c
        for(i=1;i<=mr;i++)if((i,p,m) in v){a[++n]=v[i,p,m]+0
          if((i,"direct",m) in v){d=v[i,"direct",m]+0;c[++z[q]]=a[n]-d;if(d!=0)b[++r]=a[n]/d}}
        md=med(a,n); ra=r?sprintf("%.4g",med(b,r)):""; df=z[q]?sprintf("%.5g",med(c,z[q])):""
        printf "%s,%s,%.6g,%.6g,%.6g,%d,%s,%s\n",p,m,md,a[1],a[n],n,ra,df}}' "$RAW" >"$SUM"
}
table() {
  awk -F, '
    NR==1{next}
    {m[$1,$2]=$3;lo[$1,$2]=$4;hi[$1,$2]=$5;ra[$1,$2]=$7;df[$1,$2]=$8;if(!($1 in s)){s[$1]=1;o[++k]=$1}}
    function f(p,x,fmt,sc){return ((p,x) in m)?sprintf(fmt,m[p,x]*sc):"-"}
    function fr(p,x,fmt,sc){return ((p,x) in m)?sprintf(fmt,m[p,x]*sc) (ra[p,x]!=""?sprintf(" (%.3f)",ra[p,x]):""):"-"}
    function ad(p,x,fmt,sc){return ((p,x) in df)&&df[p,x]!=""?sprintf(fmt,df[p,x]*sc):"-"}
    function pm(p,x){return ((p,x) in m)&&m[p,x]>0?sprintf("%.0f",50*(hi[p,x]-lo[p,x])/m[p,x]):"-"}
    END{
      print "(x) = ratio to direct in the same run; +-% = half the range over the runs"
      h="%-18s %16s %4s %16s %4s %15s %4s %8s %8s %8s %8s %7s\n"
      printf h,"peer","tcp1 Mbit/s","+-%","tcp10 Mbit/s","+-%","kpps 64B","+-%","CPUs/GB","T1 s/GB","T2 s/GB","us/pkt","RSS MB"
      for(i=1;i<=k;i++){p=o[i];printf h,p,fr(p,"tcp1","%.0f",1),pm(p,"tcp1"),fr(p,"tcp10","%.0f",1),pm(p,"tcp10"),fr(p,"pps","%.1f",.001),pm(p,"pps"),f(p,"cpu_gb","%.2f",1),f(p,"cpu_t1_gb","%.2f",1),f(p,"cpu_t2_gb","%.2f",1),f(p,"pps_cpu","%.1f",1),f(p,"rss","%.1f",1/1024)}
      print ""; print "Ping RTT, us (added = minus direct in the same run)"
      h="%-18s %9s %9s %10s %10s | %9s %9s %10s %10s\n"
      printf h,"peer","idle50","idle99","+idle50","+idle99","load50","load99","+load50","+load99"
      for(i=1;i<=k;i++){p=o[i];printf h,p,f(p,"idle50","%.0f",1),f(p,"idle99","%.0f",1),ad(p,"idle50","%.0f",1),ad(p,"idle99","%.0f",1),f(p,"load50","%.0f",1),f(p,"load99","%.0f",1),ad(p,"load50","%.0f",1),ad(p,"load99","%.0f",1)}
    }' "$SUM"
}

# --------------------------------------------------------------------- main
case " $PEERS " in *" direct "*) ;; *) PEERS="direct $PEERS";; esac
PEERS="direct $(for p in $PEERS; do [ $p = direct ] || echo $p; done | tr '\n' ' ')"
for p in $PEERS; do declare -F start_$p >/dev/null || die "no peer named $p"; done
allow_cc
echo run,peer,metric,value >"$RAW"
for r in $(seq "$RUNS"); do
  for p in $PEERS; do
    say "run $r/$RUNS: $p"
    measure $r $p
  done
done
summarize; table
echo; echo "CSV: $RAW $SUM"
