/**
 * The default limit: room for 4 gRPC messages of 4 MiB, or 16 HTTP bodies of 1 MiB, their largest sizes. The
 * process grows by up to twice this limit, since Node releases memory late.
 */
export const defaultRequestMemoryBytes = 16 * 1024 * 1024

/**
 * An unfinished request of at most this many bytes is neither counted nor rejected, so that a short request
 * in two pieces is always served. The limits on the number of calls bound this memory.
 */
export const uncountedBytes = 1024

/**
 * Limits the memory of unfinished requests: incomplete messages, header blocks and bodies. Beyond the limit
 * the newest requests are rejected, so older ones can always be completed and no request waits.
 */
export class MemoryBudget {
  readonly #maxBytes: number
  #bytes = 0
  #newest: Reservation | undefined

  constructor(maxBytes: number = defaultRequestMemoryBytes) {
    this.#maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Returns an empty reservation for one request.
   *
   * @param reject called if the request must give up its memory: answers the request and drops its data
   */
  reserve(reject: () => void): Reservation {
    return new Reservation(this, reject)
  }

  /** Only `Reservation` calls this. */
  add(reservation: Reservation): void {
    reservation.older = this.#newest
    if (this.#newest) this.#newest.newer = reservation
    this.#newest = reservation
  }

  /** Only `Reservation` calls this. */
  delete(reservation: Reservation): void {
    if (reservation.older) reservation.older.newer = reservation.newer
    if (reservation.newer) reservation.newer.older = reservation.older
    else this.#newest = reservation.older
    reservation.older = undefined
    reservation.newer = undefined
  }

  /** Adds a change, which may be negative. Only `Reservation` calls this. */
  change(bytes: number): void {
    this.#bytes += bytes
    // A rejection calls this method again with a negative change, while the loop below runs.
    if (bytes < 0) return
    while (this.#bytes > this.#maxBytes && this.#newest) this.#newest.reject()
  }
}

/** The memory that one unfinished request holds. */
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

  /** Sets the size of the request. May reject this request or newer ones before it returns. */
  resize(bytes: number): void {
    const counted = bytes > uncountedBytes ? bytes : 0
    const change = counted - this.#bytes
    if (change === 0) return
    if (this.#bytes === 0) this.#budget.add(this)
    if (counted === 0) this.#budget.delete(this)
    this.#bytes = counted
    this.#budget.change(change)
  }

  /** Only `MemoryBudget` calls this. */
  reject(): void {
    this.resize(0)
    this.#reject()
  }
}
