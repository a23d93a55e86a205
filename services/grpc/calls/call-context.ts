import type { X509Certificate } from 'node:crypto'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { AnyMethod, GrpcLimits, GrpcServerOptions, Metadata } from '../server.ts'
import { GrpcError } from '../status.ts'
import type { CallLifetime } from './call-lifetime.ts'

/** What all calls of a connection share. */
export interface CallContext {
  readonly limits: GrpcLimits
  readonly onDefect: GrpcServerOptions['onDefect']
  readonly calls: CallRegister
  readonly memory: MemoryBudget
  /** The address of the caller for `Call.peer`. */
  readonly peer: string
  /** The certificate of the caller for `Call.peerCertificate`. */
  readonly peerCertificate: X509Certificate | undefined
}

/** What calls of a connection with the same header block share. */
export interface CallHead {
  readonly method: AnyMethod
  readonly metadata: Metadata
  /** The size as RFC 9113 (6.5.2) counts it. */
  readonly metadataBytes: number
  /** Undefined without a deadline. */
  readonly timeoutMs: number | undefined
  /**
   * The value of grpc-encoding, for messages with the compressed flag; `identity` if the header is absent.
   */
  readonly compression: string
}

/** The error for requests that `MemoryBudget` rejects. */
export function noMemoryLeft(): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', 'no memory is left for unfinished requests')
}

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

  /** Resolves when only health watches run. Only one caller may wait. */
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
 * The running calls of a connection, unordered: when one ends, the last moves to its index. A set would keep
 * calls in memory long after their end; see `OpenStreams`.
 */
export class CallRegister {
  readonly #totals: CallTotals
  readonly #running: CallLifetime[] = []

  constructor(totals: CallTotals) {
    this.#totals = totals
  }

  add(call: CallLifetime, isWatch: boolean): void {
    call.index = this.#running.length
    this.#running.push(call)
    this.#totals.count(1, isWatch)
  }

  delete(call: CallLifetime, isWatch: boolean): void {
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
