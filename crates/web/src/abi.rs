//! The run of an instance, as functions of WebAssembly.
//!
//! Texts go in by a buffer that [`input`] makes room in, and come out by another ([`output`], [`output_length`]): the answer of a function that
//! gives 1, or what was wrong if it gives 0. Values come out as an array of 64-bit floats ([`values`]), which is valid until the next call.

#![allow(unsafe_code, reason = "names that are exported; there is no unsafe block")]

use std::cell::RefCell;

use crate::Run;

#[derive(Default)]
struct Instance {
    run: Option<Run>,
    input: Vec<u8>,
    output: String,
    values: Vec<f64>,
}

thread_local! {
    /// WebAssembly has one thread.
    static INSTANCE: RefCell<Instance> = RefCell::default();
}

/// Room for a text of so many bytes.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    INSTANCE.with_borrow_mut(|instance| {
        instance.input.clear();
        instance.input.resize(length, 0);
        instance.input.as_mut_ptr()
    })
}

/// The text of the last answer.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    INSTANCE.with_borrow(|instance| instance.output.as_ptr())
}

/// Its length in bytes.
#[unsafe(no_mangle)]
extern "C" fn output_length() -> usize {
    INSTANCE.with_borrow(|instance| instance.output.len())
}

/// Begins a run of the experiment in the buffer, of a point by its place. The answer describes it, as JSON.
#[unsafe(no_mangle)]
extern "C" fn open(point: u32, seed: u32) -> u32 {
    answer(|instance, text| {
        let run = Run::new(text, point as usize, seed)?;
        let described = serde_json::to_string(run.described()).map_err(|error| error.to_string())?;
        instance.run = Some(run);
        Ok(described)
    })
}

/// Adds a value to those that are read, by its name in the buffer.
#[unsafe(no_mangle)]
extern "C" fn watch() -> u32 {
    with_run(|run, name| run.watch(name).map(|()| String::new()))
}

/// Runs on to a time, s.
#[unsafe(no_mangle)]
extern "C" fn run_until(seconds: f64) -> u32 {
    with_run(|run, _| run.run_until(seconds).map(|()| String::new()))
}

/// Now, s.
#[unsafe(no_mangle)]
extern "C" fn now() -> f64 {
    INSTANCE.with_borrow(|instance| instance.run.as_ref().map_or(0.0, Run::now))
}

/// Reads the values that are watched. How many there are.
#[unsafe(no_mangle)]
extern "C" fn read() -> usize {
    INSTANCE.with_borrow_mut(|instance| {
        instance.values = instance.run.as_mut().map(Run::read).unwrap_or_default();
        instance.values.len()
    })
}

/// Reads the packets on one way of the link in the buffer, three values each: the part of the delay that is behind it, and the places of the
/// nodes that it is from and to. How many packets there are; none of a link that is not there.
#[unsafe(no_mangle)]
extern "C" fn packets() -> usize {
    answer(|instance, link| {
        let run = instance.run.as_ref().ok_or("no experiment is open")?;
        instance.values = run.packets(link).inspect_err(|_| instance.values.clear())?;
        Ok(String::new())
    });
    INSTANCE.with_borrow(|instance| instance.values.len() / 3)
}

/// Where they are.
#[unsafe(no_mangle)]
extern "C" fn values() -> *const f64 {
    INSTANCE.with_borrow(|instance| instance.values.as_ptr())
}

/// Changes the rate, bit/s, of one way of the link in the buffer.
#[unsafe(no_mangle)]
extern "C" fn set_rate(rate: f64) -> u32 {
    with_run(|run, link| run.set_rate(link, rate).map(|()| String::new()))
}

/// Changes its delay, s.
#[unsafe(no_mangle)]
extern "C" fn set_delay(delay: f64) -> u32 {
    with_run(|run, link| run.set_delay(link, delay).map(|()| String::new()))
}

/// Has it lose a share of its packets.
#[unsafe(no_mangle)]
extern "C" fn set_loss(loss: f64) -> u32 {
    with_run(|run, link| run.set_loss(link, loss).map(|()| String::new()))
}

/// Changes the weight of a class; the buffer has one way of a trunk, a line's end, and the class.
#[unsafe(no_mangle)]
extern "C" fn set_weight(weight: u32) -> u32 {
    with_run(|run, text| {
        let (trunk, class) = text.split_once('\n').unwrap_or((text, ""));
        run.set_weight(trunk, class, weight).map(|()| String::new())
    })
}

/// The answer is a fingerprint of all that has happened.
#[unsafe(no_mangle)]
extern "C" fn digest() -> u32 {
    with_run(|run, _| Ok(run.digest()))
}

/// Runs to the end. The answer is the metrics, as JSON.
#[unsafe(no_mangle)]
extern "C" fn measure() -> u32 {
    with_run(|run, _| run.measure())
}

fn with_run(ask: impl FnOnce(&mut Run, &str) -> Result<String, String>) -> u32 {
    answer(|instance, text| match &mut instance.run {
        Some(run) => ask(run, text),
        None => Err("no experiment is open".to_owned()),
    })
}

fn answer(ask: impl FnOnce(&mut Instance, &str) -> Result<String, String>) -> u32 {
    INSTANCE.with_borrow_mut(|instance| {
        let text = String::from_utf8(std::mem::take(&mut instance.input));
        let answered =
            text.map_err(|_| "the text is not UTF-8".to_owned()).and_then(|text| ask(instance, &text));
        let is_right = answered.is_ok();
        instance.output = answered.unwrap_or_else(|wrong| wrong);
        u32::from(is_right)
    })
}
