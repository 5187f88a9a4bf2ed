//! What the daemons need of Linux beyond safe wrappers: TUN devices, options of sockets, signals as a descriptor; the clock, and mailboxes
//! between threads.

pub mod clock;
pub mod mailbox;
mod sys;

pub use sys::{
    TcpState, TunOffloads, is_at_urgent_byte, next_signal, open_tun_queue, receive_queue, send_queue,
    send_queue_unsent, sent_isn, set_mark, set_transparent, set_tun_offloads, signal_descriptor, tcp_state,
};
