/**
 * The default limit of a process: four messages of gRPC or 16 bodies of HTTP, at their limits of 4 and 1 MiB.
 * Node releases memory late, so the process grows by up to twice as much.
 */
export const defaultRequestMemoryBytes = 16 * 1024 * 1024

/**
 * An unfinished request with at most this many bytes is neither counted nor rejected: its call takes as much,
 * and calls have separate limits. A short request in two pieces is therefore always served.
 */
export const uncountedBytes = 1024

/**
 * The memory of a process's unfinished requests: incomplete messages, header blocks and bodies. Beyond the
 * limit the newest requests are rejected, so that older ones can always be completed and none waits for
 * another.
 */
export class MemoryBudget {
  readonly #maxBytes: number
  #bytes = 0
  #newest: Reservation | undefined

  constructor(maxBytes: number = defaultRequestMemoryBytes) {
    this.#maxBytes = maxBytes
  }

  /** The number of counted bytes. */
  get bytes(): number {
    return this.#bytes
  }

  /** Returns the reservation of one request, which is empty. `reject` answers the request and drops its data. */
  reserve(reject: () => void): Reservation {
    return new Reservation(this, reject)
  }

  /** Adds a reservation whose size was 0. Only `Reservation` calls it. */
  add(reservation: Reservation): void {
    reservation.older = this.#newest
    if (this.#newest) this.#newest.newer = reservation
    this.#newest = reservation
  }

  /** Removes a reservation. Only `Reservation` calls it. */
  delete(reservation: Reservation): void {
    if (reservation.older) reservation.older.newer = reservation.newer
    if (reservation.newer) reservation.newer.older = reservation.older
    else this.#newest = reservation.older
    reservation.older = undefined
    reservation.newer = undefined
  }

  /** Adds to the bytes in use. Only `Reservation` calls it. */
  change(bytes: number): void {
    this.#bytes += bytes
    // A rejection frees memory and calls this again; the loop continues after the request has been answered.
    if (bytes < 0) return
    while (this.#bytes > this.#maxBytes && this.#newest) this.#newest.reject()
  }
}

/** The part of the budget that one unfinished request holds. */
export class Reservation {
  older: Reservation | undefined
  newer: Reservation | undefined
  readonly #budget: MemoryBudget
  readonly #reject: () => void
  #bytes = 0

  constructor(budget: MemoryBudget, reject: () => void) {
    this.#budget = budget
    this.#reject = reject
  }

  /** Sets the size of the request. This request, or a newer one, may be rejected within the call. */
  resize(bytes: number): void {
    const counted = bytes > uncountedBytes ? bytes : 0
    const change = counted - this.#bytes
    if (change === 0) return
    if (this.#bytes === 0) this.#budget.add(this)
    if (counted === 0) this.#budget.delete(this)
    this.#bytes = counted
    this.#budget.change(change)
  }

  /** Only `MemoryBudget` calls it. */
  reject(): void {
    this.resize(0)
    this.#reject()
  }
}
