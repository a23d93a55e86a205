import type { X509Certificate } from 'node:crypto'
import type { RequestMemory } from '@tollway/chassis/request-memory.ts'
import type { AnyMethod, GrpcLimits, GrpcServerOptions, Metadata } from './server.ts'
import { GrpcError } from './status.ts'

/** What all calls of a connection have in common. */
export interface CallContext {
  readonly limits: GrpcLimits
  readonly onDefect: GrpcServerOptions['onDefect']
  readonly calls: CallRegister
  readonly memory: RequestMemory
  /** The caller's address, as `Call` has it. */
  readonly peer: string
  /** As `Call` has it. */
  readonly peerCertificate: X509Certificate | undefined
}

/** What calls of a connection with the same head have in common. */
export interface CallHead {
  readonly method: AnyMethod
  readonly metadata: Metadata
  /** Of the metadata. */
  readonly metadataBytes: number
  /** Undefined when the caller waits for ever. */
  readonly timeoutMs: number | undefined
  /** The grpc-encoding, in which messages with the compressed flag are. */
  readonly compression: string
}

/** The answer to a request that `RequestMemory` refuses. */
export function noMemoryLeft(): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', 'no memory is left for unfinished requests')
}

/** A call that can be ended from outside. */
export interface CuttableCall {
  /** Answers with this error, if the call is not over, and lets the handler know. */
  cut(error: GrpcError): void
  /** Where the register has it; nobody else's business. */
  place: number
}

/** How many calls run on all connections of a server. */
export class CallTotals {
  size = 0
  /** How many of them are health watches, which would run for ever. */
  #watches = 0
  #onQuiet: (() => void) | undefined

  count(change: 1 | -1, isWatch: boolean): void {
    this.size += change
    if (isWatch) this.#watches += change
    if (this.#onQuiet) this.#tellQuiet()
  }

  /** Resolves when no call runs but health watches. */
  onlyWatchesLeft(): Promise<void> {
    return new Promise(resolve => {
      this.#onQuiet = resolve
      this.#tellQuiet()
    })
  }

  #tellQuiet(): void {
    if (this.size === this.#watches) this.#onQuiet?.()
  }
}

/**
 * The calls that run on one connection, in no order: the last one takes the place of one that ends. A set would
 * keep what has ended for long; see `OpenStreams`.
 */
export class CallRegister {
  readonly #totals: CallTotals
  readonly #running: CuttableCall[] = []

  constructor(totals: CallTotals) {
    this.#totals = totals
  }

  add(call: CuttableCall, isWatch: boolean): void {
    call.place = this.#running.length
    this.#running.push(call)
    this.#totals.count(1, isWatch)
  }

  delete(call: CuttableCall, isWatch: boolean): void {
    const last = this.#running.pop()
    if (last !== undefined && last !== call) {
      last.place = call.place
      this.#running[call.place] = last
    }
    this.#totals.count(-1, isWatch)
  }

  cutAll(error: GrpcError): void {
    for (const call of [...this.#running]) call.cut(error)
  }
}
