//! Host data in and out of buffers: straight through the mapping, or in pieces through a staging ring.

use std::{collections::VecDeque, sync::Arc};

use kiln_abi::{BufferId, BufferRange, DeviceError};

use crate::{
    Gpu, Placement, Ticket,
    memory::Allocation,
    record::{RecordOptions, Recorder},
    replay::Recorded,
    sync::lock,
};

/// Bytes of the ring.
pub const RING_BYTES: u64 = 16 << 20;
const PIECES: usize = 4;
const PIECE_BYTES: usize = RING_BYTES as usize / PIECES;

/// Serializes every host copy: the mapping of a buffer is touched by one thread at a time.
#[derive(Default)]
pub(crate) struct HostCopies {
    /// Made by the first copy that needs it.
    ring: Option<Arc<Allocation>>,
}

/// A piece that the device is copying. The recording is kept until its run has ended.
struct Flight {
    _recorded: Recorded,
    ticket: Ticket,
    piece: Piece,
}

/// A part of a transfer and its place in the ring.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    length: usize,
    slot: u64,
}

fn pieces(length: usize) -> impl Iterator<Item = Piece> {
    (0..length).step_by(PIECE_BYTES).enumerate().map(move |(index, start)| Piece {
        start,
        length: PIECE_BYTES.min(length - start),
        slot: (index % PIECES * PIECE_BYTES) as u64,
    })
}

pub(crate) fn write(gpu: &Gpu, buffer: BufferId, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
    gpu.0.device.check()?;
    let target = resolve(gpu, buffer, offset, data.len())?;
    if data.is_empty() {
        return Ok(());
    }
    let mut copies = lock(&gpu.0.host_copies);
    if target.is_mapped() {
        // Whatever was submitted before may still use the old content.
        gpu.0.queue.drain()?;
        // SAFETY: the lock on the host copies keeps every other thread away from the mapping.
        let copied = unsafe { target.copy_in(offset, data) };
        debug_assert!(copied, "the range was resolved");
        return Ok(());
    }
    let ring = copies.ring(gpu)?;
    let mut flights: VecDeque<Flight> = VecDeque::new();
    for piece in pieces(data.len()) {
        if flights.len() == PIECES
            && let Some(oldest) = flights.pop_front()
        {
            gpu.wait(&oldest.ticket, None)?;
        }
        // SAFETY: as above; the last copy out of the slot has ended.
        let copied = unsafe { ring.copy_in(piece.slot, &data[piece.start..piece.start + piece.length]) };
        debug_assert!(copied, "a piece fits its slot");
        let to = (&target, offset + piece.start as u64);
        flights.push_back(fly(gpu, &target.label, (&ring, piece.slot), to, piece)?);
    }
    flights.iter().try_for_each(|flight| gpu.wait(&flight.ticket, None))
}

pub(crate) fn read(gpu: &Gpu, buffer: BufferId, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
    gpu.0.device.check()?;
    let source = resolve(gpu, buffer, offset, out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let mut copies = lock(&gpu.0.host_copies);
    if source.is_mapped() {
        gpu.0.queue.drain()?;
        // SAFETY: the lock on the host copies keeps every other thread away from the mapping.
        let copied = unsafe { source.copy_out(offset, out) };
        debug_assert!(copied, "the range was resolved");
        return Ok(());
    }
    let ring = copies.ring(gpu)?;
    let all = pieces(out.len());
    let mut land = |Flight { ticket, piece, .. }: &Flight| -> Result<(), DeviceError> {
        gpu.wait(ticket, None)?;
        // SAFETY: as above; the copy into the slot has ended.
        let copied = unsafe { ring.copy_out(piece.slot, &mut out[piece.start..piece.start + piece.length]) };
        debug_assert!(copied, "a piece fits its slot");
        Ok(())
    };
    let mut flights: VecDeque<Flight> = VecDeque::new();
    for piece in all {
        if flights.len() == PIECES
            && let Some(oldest) = flights.pop_front()
        {
            land(&oldest)?;
        }
        let from = (&source, offset + piece.start as u64);
        flights.push_back(fly(gpu, &source.label, from, (&ring, piece.slot), piece)?);
    }
    flights.iter().try_for_each(land)
}

/// Starts the device's copy of one piece.
fn fly(
    gpu: &Gpu,
    label: &str,
    from: (&Arc<Allocation>, u64),
    to: (&Arc<Allocation>, u64),
    piece: Piece,
) -> Result<Flight, DeviceError> {
    let mut recorder = Recorder::new(gpu, label, RecordOptions::default())?;
    // SAFETY: the caller resolved the buffer's range and the slot is the ring's; it is the recording's only command.
    unsafe { recorder.copy_between(from, to, piece.length as u64) };
    let recorded = recorder.finish()?;
    let ticket = recorded.submit()?;
    Ok(Flight { _recorded: recorded, ticket, piece })
}

impl HostCopies {
    fn ring(&mut self, gpu: &Gpu) -> Result<Arc<Allocation>, DeviceError> {
        if let Some(ring) = &self.ring {
            return Ok(ring.clone());
        }
        let memory = &gpu.0.memory;
        let ring = Arc::new(memory.take(Placement::Host, RING_BYTES, "the staging ring", || None)?);
        Ok(self.ring.insert(ring).clone())
    }
}

fn resolve(gpu: &Gpu, buffer: BufferId, offset: u64, length: usize) -> Result<Arc<Allocation>, DeviceError> {
    gpu.0.buffers.resolve(BufferRange { buffer, offset_bytes: offset, bytes: length as u64 })
}
