import type { IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { isObject } from '@tollway/chassis/is-object.ts'
import { parseJson } from '@tollway/chassis/json.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { KubeApiAccess } from './access.ts'
import { connectionError, KubeApiError, statusError } from './api-error.ts'
import type { ApiResource } from './kube-object.ts'
import {
  createTransport,
  type KubeTransport,
  readWatchEvents,
  readWholeBody,
  type WatchEvent,
} from './transport.ts'

interface KubeClientLimits {
  /** The time limit of one attempt until its last byte; of a watch until the head of the answer. */
  readonly attemptTimeoutMs: number
  /** The time limit of a call, with all attempts and waits. */
  readonly callTimeoutMs: number
  readonly maxAnswerBytes: number
  readonly maxEventBytes: number
  /** The shortest time between two calls while the API server fails or does not answer. */
  readonly outageSpacingMs: number
}

const defaultLimits: KubeClientLimits = {
  attemptTimeoutMs: 10_000,
  callTimeoutMs: 30_000,
  maxAnswerBytes: 64 * 1024 * 1024,
  maxEventBytes: 8 * 1024 * 1024,
  outageSpacingMs: 100,
}

export interface KubeClientOptions {
  readonly random: () => number
  readonly clock?: Clock
  readonly limits?: Partial<KubeClientLimits>
  /** Called for each request with its verb and the plural of its resource. */
  readonly onRequest?: (method: string, resource: string) => void
}

interface ApiCall {
  readonly resource: ApiResource
  readonly method: string
  readonly path: string
  readonly body?: unknown
  /** The type of the body; JSON when left out. */
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
}

const retries = { initialMs: 100, maxMs: 5_000, factor: 2, jitter: 0.5 } as const

/** Makes calls with a time limit, repeats them if the server asks for it, and turns failures into errors. */
export class KubeCaller {
  readonly #transport: KubeTransport
  readonly #random: () => number
  readonly #clock: Clock
  readonly #limits: KubeClientLimits
  readonly #onRequest: (method: string, resource: string) => void
  /**
   * Limits the rate of all calls while the server fails, because hundreds of retries would prevent its
   * recovery. A successful answer removes the limit.
   */
  #outage: RateLimiter | undefined

  constructor(access: KubeApiAccess, options: KubeClientOptions) {
    const { random, clock = systemClock, limits, onRequest = () => {} } = options
    this.#transport = createTransport(access)
    this.#random = random
    this.#clock = clock
    this.#limits = { ...defaultLimits, ...limits }
    this.#onRequest = onRequest
  }

  /** Resolves with the JSON object in the answer. */
  async call(call: ApiCall): Promise<Readonly<Record<string, unknown>>> {
    const { attemptTimeoutMs, callTimeoutMs } = this.#limits
    const endMs = this.#clock.monotonicMs() + callTimeoutMs
    const backoff = createBackoff({ ...retries, random: this.#random })
    for (;;) {
      try {
        return await this.#attempt(call, Math.min(attemptTimeoutMs, endMs - this.#clock.monotonicMs()))
      } catch (error) {
        if (!mayRepeat(error)) throw error
        const waitMs = (error.retryAfterMs ?? 0) + backoff.nextMs()
        if (this.#clock.monotonicMs() + waitMs >= endMs) throw error
        await pause(waitMs, undefined, call.signal === undefined ? {} : { signal: call.signal })
      }
    }
  }

  async *watch(call: ApiCall): AsyncGenerator<WatchEvent> {
    const name = `watch ${describeCall(call)}`
    const limit = limitTime(name, this.#limits.attemptTimeoutMs, call.signal)
    try {
      const response = await this.#open(call, 'WATCH', { signal: limit.signal, endless: true })
      if (response.statusCode !== 200) {
        await this.#readAnswer(call, response, name)
        const { statusCode } = response
        throw new KubeApiError(0, 'BadAnswer', `${name}: ${statusCode} is not a valid answer to a watch`)
      }
      limit.endTimer()
      this.#outage = undefined
      yield* readWatchEvents(response, name, this.#limits.maxEventBytes)
    } catch (error) {
      throw this.#failure(name, error, limit.signal)
    } finally {
      limit.end()
    }
  }

  close(): void {
    this.#transport.close()
  }

  async #attempt(call: ApiCall, timeoutMs: number): Promise<Readonly<Record<string, unknown>>> {
    const name = describeCall(call)
    const limit = limitTime(name, timeoutMs, call.signal)
    try {
      const response = await this.#open(call, call.method, { signal: limit.signal })
      return await this.#readAnswer(call, response, name)
    } catch (error) {
      throw this.#failure(name, error, limit.signal)
    } finally {
      limit.end()
    }
  }

  async #open(
    call: ApiCall,
    verb: string,
    how: { readonly signal: AbortSignal; readonly endless?: true },
  ): Promise<IncomingMessage> {
    await this.#outage?.acquire(how.signal)
    this.#onRequest(verb, call.resource.plural)
    return this.#transport.open({ ...toHttp(call), ...how })
  }

  /**
   * Resolves with the JSON object in an answer. Rejects with a `KubeApiError` if the answer reports a
   * failure.
   */
  async #readAnswer(call: ApiCall, response: IncomingMessage, name: string) {
    const text = await readWholeBody(response, name, this.#limits.maxAnswerBytes)
    const status = response.statusCode ?? 0
    if (status === 429 || status >= 500) this.#slowDown()
    else this.#outage = undefined
    const body = parseJson(text)
    if (status >= 200 && status < 300) {
      if (isObject(body)) return body
      throw new KubeApiError(0, 'BadAnswer', `${describeCall(call)}: the answer is not a JSON object`)
    }
    throw statusError(describeCall(call), status, body ?? text, {
      retryAfterMs: parseRetryAfter(response.headers['retry-after']),
      withhold: mayCiteSecret(call.resource, status),
    })
  }

  #slowDown(): void {
    if (this.#outage !== undefined) return
    this.#outage = new RateLimiter({ perSecond: 1_000 / this.#limits.outageSpacingMs, burst: 1 }, this.#clock)
    this.#outage.reserve()
  }

  #failure(name: string, error: unknown, signal: AbortSignal): unknown {
    if (error instanceof KubeApiError && error.code !== 0) return error
    const cause = signal.aborted ? signal.reason : connectionError(name, error)
    // A call that the caller aborted is no sign of an outage.
    if (cause instanceof KubeApiError) this.#slowDown()
    return cause
  }
}

/**
 * Returns a signal that aborts after the time with an error that names the call, or together with `outer`.
 */
function limitTime(name: string, timeoutMs: number, outer: AbortSignal | undefined) {
  const controller = new AbortController()
  const timer = setTimeout(() => {
    const message = `${name}: no whole answer within ${Math.round(timeoutMs)} ms`
    controller.abort(new KubeApiError(0, 'Timeout', message))
  }, timeoutMs)
  const follow = () => controller.abort(outer?.reason)
  if (outer?.aborted) follow()
  outer?.addEventListener('abort', follow)
  return {
    signal: controller.signal,
    endTimer: () => clearTimeout(timer),
    end() {
      clearTimeout(timer)
      outer?.removeEventListener('abort', follow)
    },
  }
}

function mayRepeat(error: unknown): error is KubeApiError {
  if (!(error instanceof KubeApiError)) return false
  return error.code === 429 || (error.code === 503 && error.retryAfterMs !== undefined)
}

/** Returns the wait in milliseconds. The API server sends whole seconds. */
function parseRetryAfter(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,6}$/.test(header) ? Number(header) * 1000 : undefined
}

/** Returns whether the answer may quote a value of a rejected Secret. */
function mayCiteSecret({ group, plural }: ApiResource, status: number): boolean {
  return group === '' && plural === 'secrets' && (status === 400 || status === 422 || status >= 500)
}

function toHttp({ method, path, body, contentType = 'application/json' }: ApiCall) {
  if (body === undefined) return { method, path }
  const text = JSON.stringify(body)
  const headers = { 'content-type': contentType, 'content-length': `${Buffer.byteLength(text)}` }
  return { method, path, body: text, headers }
}

function describeCall({ method, path }: ApiCall): string {
  return `${method} ${path.replace(/\?.*/, '')}`
}
