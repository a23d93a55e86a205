export interface QueuedEvent {
  readonly atMs: number
  /** Orders events of the same time before their numbers do. */
  readonly tie: number
  readonly number: number
}

/** A binary heap of events, the next one first. */
export class EventQueue<Event extends QueuedEvent> {
  readonly #heap: Event[] = []

  get first(): Event | undefined {
    return this.#heap[0]
  }

  add(event: Event): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(event)
    while (at > 0) {
      const parent = (at - 1) >>> 1
      const above = heap[parent] as Event
      if (!isBefore(event, above)) break
      heap[at] = above
      at = parent
    }
    heap[at] = event
  }

  take(): Event | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1
      if (!isBefore(heap[child] as Event, last)) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
    return first
  }
}

function isBefore(one: QueuedEvent, other: QueuedEvent): boolean {
  if (one.atMs !== other.atMs) return one.atMs < other.atMs
  if (one.tie !== other.tie) return one.tie < other.tie
  return one.number < other.number
}
