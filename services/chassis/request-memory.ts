/**
 * The default of a process: four messages of gRPC, or 16 bodies of HTTP, at their limits of 4 and 1 MiB. Node
 * returns memory late, so the process grows by up to twice as much.
 */
export const defaultRequestMemoryBytes = 16 * 1024 * 1024

/**
 * An unfinished request that holds no more than this is neither counted nor refused: its call takes as much,
 * and calls have limits of their own. So a short request in two pieces is served whatever others do.
 */
export const uncountedBytes = 1024

/**
 * What the unfinished requests of a process hold together: messages, header blocks and bodies of which a part
 * has come. Beyond the limit the newest of them are refused, so the older ones can always go on to their ends,
 * and none waits for another.
 */
export class RequestMemory {
  readonly #maxBytes: number
  #bytes = 0
  #newest: HeldMemory | undefined

  constructor(maxBytes: number = defaultRequestMemoryBytes) {
    this.#maxBytes = maxBytes
  }

  /** How many bytes are held and counted. */
  get bytes(): number {
    return this.#bytes
  }

  /** Of one request. `refuse` answers it, and drops what it holds. */
  open(refuse: () => void): HeldMemory {
    return new HeldMemory(this, refuse)
  }

  /** For `HeldMemory` alone: it holds something for the first time since it held nothing. */
  add(held: HeldMemory): void {
    held.older = this.#newest
    if (this.#newest) this.#newest.newer = held
    this.#newest = held
  }

  /** For `HeldMemory` alone. */
  delete(held: HeldMemory): void {
    if (held.older) held.older.newer = held.newer
    if (held.newer) held.newer.older = held.older
    else this.#newest = held.older
    held.older = undefined
    held.newer = undefined
  }

  /** For `HeldMemory` alone. */
  change(bytes: number): void {
    this.#bytes += bytes
    // A refusal gives memory back; the loop that refuses goes on only after its request has been answered.
    if (bytes < 0) return
    while (this.#bytes > this.#maxBytes && this.#newest) this.#newest.refuse()
  }
}

/** What one unfinished request holds. */
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

  /** Says how much the request holds now. It, or a newer one, may be refused within the call. */
  resize(bytes: number): void {
    const counted = bytes > uncountedBytes ? bytes : 0
    const change = counted - this.#bytes
    if (change === 0) return
    if (this.#bytes === 0) this.#memory.add(this)
    if (counted === 0) this.#memory.delete(this)
    this.#bytes = counted
    this.#memory.change(change)
  }

  /** For `RequestMemory` alone. */
  refuse(): void {
    this.resize(0)
    this.#refuse()
  }
}
