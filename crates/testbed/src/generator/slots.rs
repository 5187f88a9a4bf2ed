//! Places for connections, which are used again.

use super::connection::Connection;
use super::poll::ConnectionId;

#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, slot) = &mut self.slots[index as usize];
        *slot = Some(connection);
        ConnectionId { index, generation: *generation }
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let (generation, slot) = self.slots.get(id.index as usize)?;
        slot.as_ref().filter(|_| *generation == id.generation)
    }

    /// `None` if the place is another's by now.
    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let (generation, slot) = self.slots.get_mut(id.index as usize)?;
        slot.as_mut().filter(|_| *generation == id.generation)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let (generation, slot) = self.slots.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let connection = slot.take()?;
        *generation = (*generation + 1) & 0x0fff_ffff;
        self.free.push(id.index);
        Some(connection)
    }
}
