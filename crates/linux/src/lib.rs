//! What the daemons and the testbed need of Linux beyond safe wrappers: TUN devices, options of sockets, what the kernel says of TCP
//! connections, batches of datagrams, signals as a descriptor, memory; the clock, and mailboxes between threads.

pub mod address;
pub mod clock;
pub mod control;
pub mod mailbox;
mod socket;
mod sys;
mod tcp_info;
pub mod udp;

pub use socket::{
    bind_to_interface, interface_of, max_pacing_rate, sent_isn, set_congestion_control, set_dead_after,
    set_dscp, set_int, set_mark, set_max_pacing_rate, set_max_segment, set_nodelay, set_notsent_lowat,
    set_port_late, set_rto_max, set_transparent, set_window_clamp,
};
pub use sys::{
    Ring, TunOffloads, is_at_urgent_byte, next_signal, open_tun_queue, receive_queue, send_queue,
    send_queue_unsent, set_file_identity, set_tun_offloads, signal_descriptor,
};
pub use tcp_info::TcpInfo;
