import type { X509Certificate } from 'node:crypto'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { AnyMethod, GrpcLimits, GrpcServerOptions, Metadata } from '../server.ts'
import { GrpcError } from '../status.ts'

/** The state that all calls of a connection share. */
export interface CallContext {
  readonly limits: GrpcLimits
  readonly onDefect: GrpcServerOptions['onDefect']
  readonly calls: CallRegister
  readonly memory: MemoryBudget
  /** The caller's address, as in `Call`. */
  readonly peer: string
  /** The peer's certificate, as in `Call`. */
  readonly peerCertificate: X509Certificate | undefined
}

/** The state that calls of a connection with the same head share. */
export interface CallHead {
  readonly method: AnyMethod
  readonly metadata: Metadata
  /** The size of the metadata. */
  readonly metadataBytes: number
  /** Undefined when the caller has no deadline. */
  readonly timeoutMs: number | undefined
  /** The grpc-encoding of messages with the compressed flag. */
  readonly compression: string
}

/** Returns the answer to a request that `MemoryBudget` rejects. */
export function noMemoryLeft(): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', 'no memory is left for unfinished requests')
}

/** A call that can be ended from outside. */
export interface CuttableCall {
  /** Answers with this error, unless the call is over, and aborts its signal. */
  cut(error: GrpcError): void
  /** The index of the call in its register, which maintains it. */
  index: number
}

/** The number of running calls on all connections of a server. */
export class CallTotals {
  size = 0
  /** The number of running health watches, which do not end by themselves. */
  #watches = 0
  #onQuiet: (() => void) | undefined

  count(change: 1 | -1, isWatch: boolean): void {
    this.size += change
    if (isWatch) this.#watches += change
    if (this.#onQuiet) this.#notifyQuiet()
  }

  /** Resolves when no calls run except health watches. */
  onlyWatchesLeft(): Promise<void> {
    return new Promise(resolve => {
      this.#onQuiet = resolve
      this.#notifyQuiet()
    })
  }

  #notifyQuiet(): void {
    if (this.size === this.#watches) this.#onQuiet?.()
  }
}

/**
 * The running calls of one connection, unordered: the last one moves to the index of a call that ends. A set
 * would keep ended calls alive for long; see `OpenStreams`.
 */
export class CallRegister {
  readonly #totals: CallTotals
  readonly #running: CuttableCall[] = []

  constructor(totals: CallTotals) {
    this.#totals = totals
  }

  add(call: CuttableCall, isWatch: boolean): void {
    call.index = this.#running.length
    this.#running.push(call)
    this.#totals.count(1, isWatch)
  }

  delete(call: CuttableCall, isWatch: boolean): void {
    const last = this.#running.pop()
    if (last !== undefined && last !== call) {
      last.index = call.index
      this.#running[call.index] = last
    }
    this.#totals.count(-1, isWatch)
  }

  cutAll(error: GrpcError): void {
    for (const call of [...this.#running]) call.cut(error)
  }
}
