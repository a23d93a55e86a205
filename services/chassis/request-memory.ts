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
export class RequestMemory {
  readonly #maxBytes: number
  #bytes = 0
  #newest: HeldMemory | undefined

  constructor(maxBytes: number = defaultRequestMemoryBytes) {
    this.#maxBytes = maxBytes
  }

  /** The number of counted bytes. */
  get bytes(): number {
    return this.#bytes
  }

  /** Opens the memory of one request. `refuse` answers the request and drops its data. */
  open(refuse: () => void): HeldMemory {
    return new HeldMemory(this, refuse)
  }

  /** Adds a holder whose size was 0. Only `HeldMemory` calls it. */
  add(held: HeldMemory): void {
    held.older = this.#newest
    if (this.#newest) this.#newest.newer = held
    this.#newest = held
  }

  /** Removes a holder. Only `HeldMemory` calls it. */
  delete(held: HeldMemory): void {
    if (held.older) held.older.newer = held.newer
    if (held.newer) held.newer.older = held.older
    else this.#newest = held.older
    held.older = undefined
    held.newer = undefined
  }

  /** Adds to the bytes in use. Only `HeldMemory` calls it. */
  change(bytes: number): void {
    this.#bytes += bytes
    // A rejection frees memory and calls this again; the loop continues after the request has been answered.
    if (bytes < 0) return
    while (this.#bytes > this.#maxBytes && this.#newest) this.#newest.refuse()
  }
}

/** The memory of one unfinished request. */
export class HeldMemory {
  older: HeldMemory | undefined
  newer: HeldMemory | undefined
  readonly #memory: RequestMemory
  readonly #refuse: () => void
  #bytes = 0

  constructor(memory: RequestMemory, refuse: () => void) {
    this.#memory = memory
    this.#refuse = refuse
  }

  /** Sets the size of the request. This request, or a newer one, may be rejected within the call. */
  resize(bytes: number): void {
    const counted = bytes > uncountedBytes ? bytes : 0
    const change = counted - this.#bytes
    if (change === 0) return
    if (this.#bytes === 0) this.#memory.add(this)
    if (counted === 0) this.#memory.delete(this)
    this.#bytes = counted
    this.#memory.change(change)
  }

  /** Only for `RequestMemory`. */
  refuse(): void {
    this.resize(0)
    this.#refuse()
  }
}
