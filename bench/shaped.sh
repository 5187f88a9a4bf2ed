#!/usr/bin/env bash
# Goodput of one TCP flow through a trunk over a line of 100 Mbit/s, by the token bucket's burst and place, with and without edge pacing.
#
#   sudo bench/shaped.sh                       # about three minutes
#   sudo PLACES=own BURSTS="16kb" bench/shaped.sh
#
# Five namespaces: host ha, gateway ga, bridge w, gateway gb, host hb. The tbf is at the bridge towards gb ("middle", as a line behind the
# gateway would be) or on ga's own interface ("own", where TCP small queues of the kernel hold the lanes back). Needs iproute2, iperf3,
# ping, python3. Takes away all it has made.
#
#   TRUNKLINE   the program             RATE      100mbit      LATENCY  the tbf's queue, 50ms
#   BURSTS      "5kb 8kb 16kb 32kb"     PLACES    "middle own" PACING   "true false"      T  seconds each, 8
set -euo pipefail
TRUNKLINE=$(realpath "${TRUNKLINE:-target/release/trunkline}")
BURSTS=${BURSTS:-"5kb 8kb 16kb 32kb"} PLACES=${PLACES:-"middle own"} PACING=${PACING:-"true false"}
RATE=${RATE:-100mbit} LATENCY=${LATENCY:-50ms} T=${T:-8}

tag=tlsh$$
dir=$(mktemp -d)
started=()
end() {
    for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
    wait 2> /dev/null || true
    for name in ha ga w gb hb; do ip netns del "$tag-$name" 2> /dev/null || true; done
    rm -rf "$dir"
}
trap end EXIT
in_() { local name=$1; shift; ip netns exec "$tag-$name" "$@"; }
wire() { # NAMESPACE DEVICE NAMESPACE DEVICE
    ip link add tl-l netns "$tag-$1" type veth peer name tl-r netns "$tag-$3"
    ip -n "$tag-$1" link set tl-l name "$2" up
    ip -n "$tag-$3" link set tl-r name "$4" up
}

for name in ha ga w gb hb; do ip netns add "$tag-$name"; ip -n "$tag-$name" link set lo up; done
wire ha lan ga lan; wire ga wan w left; wire w right gb wan; wire gb lan hb lan
ip -n "$tag-w" link add name br0 type bridge
for port in left right br0; do ip -n "$tag-w" link set "$port" up; done
for port in left right; do ip -n "$tag-w" link set "$port" master br0; done
address() { ip -n "$tag-$1" address add "$2" dev "$3"; }
address ha 198.18.1.2/24 lan; address ga 198.18.1.1/24 lan; address ga 198.18.0.1/24 wan
address hb 198.18.2.2/24 lan; address gb 198.18.2.1/24 lan; address gb 198.18.0.2/24 wan
ip -n "$tag-ha" route add default via 198.18.1.1
ip -n "$tag-hb" route add default via 198.18.2.1
for name in ga gb; do in_ "$name" sysctl -qw net.ipv4.ip_forward=1; done

umask 077
for site in a b; do "$TRUNKLINE" genkey > "$dir/$site.key"; done
site() { # SITE PEER TUN-ADDRESS ROUTE LISTEN ENDPOINT PACING
    cat > "$dir/$1.toml" << END
private_key_file = "$1.key"
$5
[control]
socket = "$dir/$1.sock"
[tun]
address = ["$3"]
[lanes]
edge_pacing = $7
[[peers]]
name = "$2"
public_key = "$("$TRUNKLINE" pubkey < "$dir/$2.key")"
routes = ["$4"]
$6
END
}
# Not by the function: the process in the background must be the program itself, to be ended.
ip netns exec "$tag-hb" iperf3 -s > /dev/null & started+=($!)

printf '%-7s %-6s %-6s %14s %s\n' place burst pacing 'goodput Mbit/s' 'ping beside it, ms: min/avg/max/mdev'
for pacing in $PACING; do
    site a b 198.19.0.1/30 198.18.2.0/24 'listen = ["198.18.0.1:4600"]' '' "$pacing"
    site b a 198.19.0.2/30 198.18.1.0/24 '' 'endpoint = "198.18.0.1:4600"' "$pacing"
    ip netns exec "$tag-ga" "$TRUNKLINE" up "$dir/a.toml" 2> "$dir/a.log" & a=$!
    ip netns exec "$tag-gb" "$TRUNKLINE" up "$dir/b.toml" 2> "$dir/b.log" & b=$!
    started+=("$a" "$b")
    for _ in $(seq 50); do in_ ha ping -c 1 -W 1 198.18.2.2 > /dev/null 2>&1 && break; sleep 0.2; done
    for place in $PLACES; do
        case $place in middle) at=(w right) ;; own) at=(ga wan) ;; esac
        for burst in $BURSTS; do
            ip netns exec "$tag-${at[0]}" tc qdisc replace dev "${at[1]}" root tbf rate "$RATE" burst "$burst" latency "$LATENCY"
            in_ ha iperf3 -C cubic -c 198.18.2.2 -O 2 -t "$T" -J > "$dir/flow.json" & flow=$!
            sleep 3
            ping=$(in_ ha ping -q -i 0.1 -c 40 198.18.2.2 | sed -n 's/^rtt.*= //p')
            wait "$flow"
            rate=$(python3 -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"] / 1e6, 1))' "$dir/flow.json")
            printf '%-7s %-6s %-6s %14s %s\n' "$place" "$burst" "$pacing" "$rate" "${ping% ms}"
        done
        ip netns exec "$tag-${at[0]}" tc qdisc del dev "${at[1]}" root
    done
    kill "$a" "$b"
    wait "$a" "$b" 2> /dev/null || true
done
