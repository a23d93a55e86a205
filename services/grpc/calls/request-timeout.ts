import { GrpcError } from '../status.ts'
import type { CallContext, CuttableCall } from './call-context.ts'

/**
 * Limits how long the server waits for the rest of a request that holds counted memory, so that a caller that
 * sends slowly or stops sending does not keep the process's request memory until its connection ends.
 */
export class RequestTimeout {
  readonly #timeoutMs: number
  readonly #call: Pick<CuttableCall, 'cut'>
  #timer: NodeJS.Timeout | undefined

  constructor({ limits }: CallContext, call: Pick<CuttableCall, 'cut'>) {
    this.#timeoutMs = limits.requestTimeoutMs
    this.#call = call
  }

  /** Starts the time, unless it already runs. When it is over, the call ends with DEADLINE_EXCEEDED. */
  start(): void {
    this.#timer ??= setTimeout(() => {
      const problem = `the request was not complete within ${this.#timeoutMs / 1000} s`
      this.#call.cut(new GrpcError('DEADLINE_EXCEEDED', problem))
    }, this.#timeoutMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
