import { GrpcError } from '../status.ts'
import type { CallContext } from './call-context.ts'
import type { CallLifetime } from './call-lifetime.ts'

/**
 * Limits the wait for the rest of a request that counts in the memory budget: a caller that sends slowly, or
 * stops, would otherwise occupy request memory until its connection ends.
 */
export class RequestTimeout {
  readonly #timeoutMs: number
  readonly #call: Pick<CallLifetime, 'cut'>
  #timer: NodeJS.Timeout | undefined

  constructor({ limits }: CallContext, call: Pick<CallLifetime, 'cut'>) {
    this.#timeoutMs = limits.requestTimeoutMs
    this.#call = call
  }

  /** Starts the timeout, unless it runs. */
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
