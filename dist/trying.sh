# What the scripts beside this one share. They set `subject`, what they try, and then read this; a script with more to end has a `finish` of
# its own.

work=$(mktemp -d)
# Processes and network namespaces that end with the script.
running=() namespaces=()

finish() {
    # Daemons end their children first.
    [ ${#running[@]} = 0 ] || kill "${running[@]}" 2> /dev/null || true
    wait 2> /dev/null || true
    local name
    for name in "${namespaces[@]}"; do ip netns delete "$name" 2> /dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap 'finish' EXIT
trap 'exit 130' INT TERM

skip() {
    printf 'SKIPPED %s: %s\n' "$subject" "$*"
    exit 0
}

fail() {
    printf 'FAILED %s: %s\n' "$subject" "$*" >&2
    tail -n 20 "$work"/*.log "$work"/*.out >&2 2> /dev/null || true
    exit 1
}

# within SECONDS COMMAND…: until the command succeeds.
within() {
    local end=$((SECONDS + $1))
    until "${@:2}" > "$work/last.log" 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.3
    done
}

# two_sites GATEWAY A B [MORE]: gateways of sites a (198.19.0.1) and b (198.19.0.2) in new namespaces A and B, with MORE in the file of a. Their
# control sockets are $work/a.sock and $work/b.sock.
two_sites() {
    local gateway=$1 name site
    namespaces+=("$2" "$3")
    for name in "$2" "$3"; do
        ip netns add "$name"
        ip -n "$name" link set lo up
    done
    ip link add wan netns "$2" type veth peer name wan netns "$3"
    ip -n "$2" address add 198.18.0.1/24 dev wan
    ip -n "$3" address add 198.18.0.2/24 dev wan
    for name in "$2" "$3"; do ip -n "$name" link set wan up; done
    (umask 077 && for site in a b; do "$gateway" genkey > "$work/$site.key"; done)
    site_file a 1 b 2 'endpoint = "198.18.0.2:4600"' ''
    site_file b 2 a 1 '' 'listen = ["198.18.0.2:4600"]'
    printf '%s\n' "${4:-}" >> "$work/a.toml"
    for site in "a $2" "b $3"; do
        ip netns exec "${site#* }" "$gateway" up "$work/${site% *}.toml" > "$work/up-${site% *}.log" 2>&1 &
        running+=($!)
    done
}

site_file() { # NAME NUMBER PEER NUMBER MORE-OF-THE-PEER MORE
    cat > "$work/$1.toml" << END
name = "$1"
private_key_file = "$1.key"
$6
[tun]
address = ["198.19.0.$2/32"]
[control]
socket = "$work/$1.sock"
[[peers]]
name = "$3"
public_key = "$("$gateway" pubkey < "$work/$3.key")"
routes = ["198.19.0.$4/32"]
$5
END
}
