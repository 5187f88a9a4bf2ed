/* BIC (Xu, Harfoush and Rhee, INFOCOM 2004) for a kernel that is built without it.
 *
 * The versions and the rules are those of docs/models/bic.md. What differs between versions comes from the compiler's command
 * line: S_MAX, SMOOTH, BETA, CONVERGED, FIRST_GROWTH, FORGETS, and VARIABLE, the name under which it is loaded.
 *
 * An acknowledgement counts what it acknowledges, as with the kernel's own congestion controls.
 *
 * All arithmetic is in `cong_control`, whose result is the window itself. Some kernels (seen with 6.18) now and then take
 * another value than the one that `ssthresh` returns, so the threshold is written again with the next acknowledgement.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;

/* Up to this many segments BIC is Reno. */
#define LOW_WINDOW 14
/* A step is the distance divided by this. */
#define B 4
/* How long an increase holds while the window is the same: 1/32 s. */
#define UPDATE_NS 31250000ULL
/* No window of ours is this large: what is larger did not come from here. */
#define ABSURD (1U << 20)
#define INFINITE 0x7fffffffU

struct search {
	__u32 w_max;
	/* Acknowledged segments for one segment of growth; zero: not yet computed. */
	__u32 count;
	__u32 last_cwnd;
	__u32 is_reducing;
	/* The window and the threshold before the last reduction, and its result. */
	__u32 prior_cwnd;
	__u32 prior_ssthresh;
	__u32 prior_w_max;
	__u32 ssthresh;
	/* Packets that arrived since the reduction began. */
	__u32 delivered;
	/* Up to where data was acknowledged in order at the last acknowledgement. */
	__u32 una;
	__u64 last_time;
};

static struct search *search_of(struct sock *sk)
{
	return (struct search *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __u32 reduced(__u32 cwnd)
{
	__u32 left = cwnd <= LOW_WINDOW ? cwnd / 2 : cwnd * BETA / 1024;
	return left < 2 ? 2 : left;
}

static __u32 count_of(__u32 cwnd, __u32 w_max)
{
	__u32 slow = cwnd * SMOOTH / B;
	__u32 count;

	if (cwnd <= LOW_WINDOW)
		return cwnd;
	if (cwnd < w_max) {
		__u32 step = (w_max - cwnd) / B;

		if (step <= 1)
			count = slow;
		else
			count = cwnd / (step < S_MAX ? step : S_MAX);
	} else {
		__u32 beyond = cwnd - w_max;

		if (beyond < B)
			count = slow;
		else if (beyond < S_MAX * (B - 1))
			count = cwnd * (B - 1) / beyond;
		else
			count = cwnd / S_MAX;
	}
	if (FIRST_GROWTH && w_max == 0 && count > FIRST_GROWTH)
		count = FIRST_GROWTH;
	return count ? count : 1;
}

/* A loss: fast convergence, and what is left of the window. */
static void reduce(struct search *search, struct tcp_sock *tp, __u32 cwnd, int is_timeout)
{
	search->prior_w_max = search->w_max;
	search->prior_cwnd = cwnd;
	search->prior_ssthresh = tp->prior_ssthresh;
	search->w_max = cwnd < search->w_max ? cwnd * CONVERGED / 1024 : cwnd;
	if (is_timeout && FORGETS)
		search->w_max = 0;
	search->count = 0;
	search->ssthresh = reduced(cwnd);
	search->delivered = 0;
	search->is_reducing = 1;
}

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	struct search *search = search_of(sk);

	search->w_max = 0;
	search->count = 0;
	search->last_cwnd = 0;
	search->is_reducing = 0;
	search->prior_cwnd = 0;
	search->prior_ssthresh = 0;
	search->prior_w_max = 0;
	search->ssthresh = INFINITE;
	search->delivered = 0;
	search->una = 0;
	search->last_time = 0;
}

SEC("struct_ops")
__u32 BPF_PROG(bic_ssthresh, struct sock *sk)
{
	return reduced(((struct tcp_sock *)sk)->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(bic_undo, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 prior = search_of(sk)->prior_cwnd;

	return tp->snd_cwnd > prior ? tp->snd_cwnd : prior;
}

/* While losses are repaired: proportional rate reduction (RFC 6937), with slow start only where no more losses appear. The kernel
 * counts what is sent in that time (`prr_out`), and leaves the count of what arrives to us.
 */
static void repair(struct search *search, struct tcp_sock *tp, __u32 acked, int is_good)
{
	__u32 away = tp->sacked_out + tp->lost_out;
	__u32 in_flight = tp->packets_out + tp->retrans_out;
	__u32 sent = tp->prr_out;
	__u32 send = 0;

	in_flight = in_flight > away ? in_flight - away : 0;
	search->delivered += acked;
	if (in_flight > search->ssthresh) {
		__u32 prior = search->prior_cwnd ? search->prior_cwnd : 1;
		__u64 allowed = ((__u64)search->ssthresh * search->delivered + prior - 1) / prior;

		if (allowed > sent)
			send = allowed - sent;
	} else {
		__u32 room = search->ssthresh - in_flight;

		send = search->delivered > sent ? search->delivered - sent : 0;
		if (send < acked)
			send = acked;
		if (is_good)
			send++;
		if (send > room)
			send = room;
	}
	/* The first retransmission leaves at once. */
	if (!send && !sent)
		send = 1;
	in_flight += send;
	tp->snd_cwnd = in_flight ? in_flight : 1;
}

static void grow(struct search *search, struct tcp_sock *tp, __u32 acked)
{
	__u32 cwnd = tp->snd_cwnd;
	__u64 now = bpf_ktime_get_ns();

	if (cwnd < tp->snd_ssthresh) {
		if (cwnd >= 2 * tp->max_packets_out)
			return;
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
		cwnd = tp->snd_cwnd;
	} else if (!tp->is_cwnd_limited) {
		return;
	}
	if (!search->count || search->last_cwnd != cwnd || now - search->last_time > UPDATE_NS) {
		search->last_cwnd = cwnd;
		search->last_time = now;
		search->count = count_of(cwnd, search->w_max);
	}
	tcp_cong_avoid_ai(tp, search->count, acked);
}

/* As the kernel paces what has no `cong_control`: twice the window's rate in slow start below half of the threshold, else 1.2 times.
 * Without it a socket would keep the rate that the congestion control before this one left.
 */
static void pace(struct sock *sk, struct tcp_sock *tp)
{
	__u64 cwnd = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
	__u64 rate = (__u64)tp->mss_cache * cwnd * 8 * 1000000 / 100;

	rate *= tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	if (tp->srtt_us)
		sk->sk_pacing_rate = rate / tp->srtt_us;
}

static void on_ack(struct sock *sk, __u32 acked, __s32 lost)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct search *search = search_of(sk);
	__u32 state = ((struct inet_connection_sock *)sk)->icsk_ca_state;
	int advances = tp->snd_una != search->una;

	search->una = tp->snd_una;
	if (tp->snd_cwnd > ABSURD)
		tp->snd_cwnd = search->prior_cwnd ? search->prior_cwnd : 2;
	if (state == TCP_CA_CWR || state == TCP_CA_Recovery) {
		if (!search->is_reducing)
			reduce(search, tp, tp->snd_cwnd, 0);
		tp->snd_ssthresh = search->ssthresh;
		repair(search, tp, acked, advances && lost <= 0);
		return;
	}
	if (state == TCP_CA_Loss) {
		/* The window is already that of a timeout; what it was is in the socket. */
		if (search->is_reducing != 2) {
			__u32 before = tp->prior_cwnd;

			reduce(search, tp, before && before <= ABSURD ? before : search->prior_cwnd, 1);
			search->is_reducing = 2;
		}
		tp->snd_ssthresh = search->ssthresh;
	} else if (search->is_reducing) {
		if (tp->snd_ssthresh == search->prior_ssthresh && search->prior_ssthresh != search->ssthresh) {
			/* The kernel took the reduction back. */
			search->w_max = search->prior_w_max;
			search->count = 0;
			search->ssthresh = search->prior_ssthresh;
		} else if (search->is_reducing == 1) {
			tp->snd_cwnd = search->ssthresh;
		}
		search->is_reducing = 0;
	}
	if (tp->snd_ssthresh > ABSURD && search->ssthresh <= ABSURD)
		tp->snd_ssthresh = search->ssthresh;
	/* Selective acknowledgements alone may be the first sign of a loss. */
	if (acked && advances)
		grow(search, tp, acked);
}

SEC("struct_ops")
#ifdef CONG_CONTROL_HAS_ACK
void BPF_PROG(bic_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
#else
void BPF_PROG(bic_cong_control, struct sock *sk, const struct rate_sample *rs)
#endif
{
	on_ack(sk, rs->acked_sacked > 0 ? rs->acked_sacked : 0, rs->losses);
	pace(sk, (struct tcp_sock *)sk);
}

#define QUOTED(name) #name
#define NAME(name) QUOTED(name)

SEC(".struct_ops")
struct tcp_congestion_ops VARIABLE = {
	.init = (void *)bic_init,
	.ssthresh = (void *)bic_ssthresh,
	.undo_cwnd = (void *)bic_undo,
	.cong_control = (void *)bic_cong_control,
	.name = NAME(VARIABLE),
};
