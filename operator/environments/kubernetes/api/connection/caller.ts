import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { type ApiResource, isRecord } from '../kube-object.ts'
import type { ApiAccess } from './access.ts'
import { connectionError, KubeApiError, statusError } from './api-error.ts'
import { createOutagePace } from './outage-pace.ts'
import { createTransport, readBody } from './transport.ts'
import { readWatchEvents, type WatchEvent } from './watch-events.ts'

export interface KubeClientLimits {
  /** One try, from the first byte to the last; for a watch until its head has come. */
  readonly attemptTimeoutMs: number
  /** A call with all its tries and waits. */
  readonly callTimeoutMs: number
  readonly maxAnswerBytes: number
  readonly maxEventBytes: number
  /** Between two calls as long as the API server answers with nothing or trouble. */
  readonly outageSpacingMs: number
}

export const defaultLimits: KubeClientLimits = {
  attemptTimeoutMs: 10_000,
  callTimeoutMs: 30_000,
  maxAnswerBytes: 64 * 1024 * 1024,
  maxEventBytes: 8 * 1024 * 1024,
  outageSpacingMs: 100,
}

export interface KubeClientOptions {
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly clock?: Clock
  readonly limits?: Partial<KubeClientLimits>
  /** Called for each request with its verb and the kind of its resource. */
  readonly onRequest?: (method: string, resource: string) => void
}

export interface ApiCall {
  readonly resource: ApiResource
  readonly method: string
  readonly path: string
  readonly body?: unknown
  /** Of the body; JSON without it. */
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
}

/** Makes calls: time limits, repetitions where the server asks for them, and answers judged. */
export interface Caller {
  /** The answer's JSON object. */
  call(call: ApiCall): Promise<Readonly<Record<string, unknown>>>
  watch(call: ApiCall): AsyncGenerator<WatchEvent>
  close(): void
}

/** The waits before a call is sent again, on top of what the server asks for. */
const retries = { initialMs: 100, maxMs: 5_000, factor: 2, jitter: 0.5 } as const

export function createCaller(access: ApiAccess, options: KubeClientOptions): Caller {
  const { random, clock = systemClock } = options
  const limits = { ...defaultLimits, ...options.limits }
  const transport = createTransport(access)
  const pace = createOutagePace(clock, limits.outageSpacingMs)

  async function call(call: ApiCall): Promise<Readonly<Record<string, unknown>>> {
    const endMs = clock.monotonicMs() + limits.callTimeoutMs
    const backoff = createBackoff({ ...retries, random })
    for (;;) {
      try {
        return await attempt(call, Math.min(limits.attemptTimeoutMs, endMs - clock.monotonicMs()))
      } catch (error) {
        if (!mayRepeat(error)) throw error
        const waitMs = (error.retryAfterMs ?? 0) + backoff.nextMs()
        if (clock.monotonicMs() + waitMs >= endMs) throw error
        await pause(waitMs, undefined, call.signal === undefined ? {} : { signal: call.signal })
      }
    }
  }

  async function attempt(call: ApiCall, timeoutMs: number): Promise<Readonly<Record<string, unknown>>> {
    const name = nameOf(call)
    const limit = limitTime(name, timeoutMs, call.signal)
    try {
      await pace.turn(limit.signal)
      options.onRequest?.(call.method, call.resource.plural)
      const response = await transport.open({ ...toHttp(call), signal: limit.signal })
      const text = await readBody(response, name, limits.maxAnswerBytes)
      return judge(call, response.statusCode ?? 0, response.headers['retry-after'], text)
    } catch (error) {
      throw failure(name, error, limit.signal)
    } finally {
      limit.end()
    }
  }

  async function* watch(call: ApiCall): AsyncGenerator<WatchEvent> {
    const name = `watch ${nameOf(call)}`
    const limit = limitTime(name, limits.attemptTimeoutMs, call.signal)
    try {
      await pace.turn(limit.signal)
      options.onRequest?.('WATCH', call.resource.plural)
      const response = await transport.open({ ...toHttp(call), signal: limit.signal, endless: true })
      const status = response.statusCode ?? 0
      if (status !== 200) {
        const text = await readBody(response, name, limits.maxAnswerBytes)
        judge(call, status, response.headers['retry-after'], text)
        throw new KubeApiError(0, 'BadAnswer', `${name}: ${status} is not a valid answer to a watch`)
      }
      limit.endTimer()
      pace.answered()
      yield* readWatchEvents(response, name, limits.maxEventBytes)
    } catch (error) {
      throw failure(name, error, limit.signal)
    } finally {
      limit.end()
    }
  }

  function judge(call: ApiCall, status: number, retryAfter: string | undefined, text: string) {
    if (status === 429 || status >= 500) pace.failed()
    else pace.answered()
    const body = parseJson(text)
    if (status >= 200 && status < 300) {
      if (isRecord(body)) return body
      throw new KubeApiError(0, 'BadAnswer', `${nameOf(call)}: the answer is not a JSON object`)
    }
    throw statusError(nameOf(call), status, body ?? text, {
      retryAfterMs: parseRetryAfter(retryAfter),
      withhold: mayCiteSecret(call.resource, status),
    })
  }

  function failure(name: string, error: unknown, signal: AbortSignal): unknown {
    if (error instanceof KubeApiError && error.code !== 0) return error
    const told = signal.aborted ? signal.reason : connectionError(name, error)
    // A caller that no longer wants its answer says nothing about the server.
    if (told instanceof KubeApiError) pace.failed()
    return told
  }

  return { call, watch, close: () => transport.close() }
}

/** Aborts after the time with an error that names the call, or when the outer signal does. */
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

/** The API server gives whole seconds. */
function parseRetryAfter(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,6}$/.test(header) ? Number(header) * 1000 : undefined
}

/** The error for a rejected Secret may contain the wrong value. */
function mayCiteSecret({ group, plural }: ApiResource, status: number): boolean {
  return group === '' && plural === 'secrets' && (status === 400 || status === 422 || status >= 500)
}

function toHttp({ method, path, body, contentType = 'application/json' }: ApiCall) {
  if (body === undefined) return { method, path }
  const text = JSON.stringify(body)
  const headers = { 'content-type': contentType, 'content-length': `${Buffer.byteLength(text)}` }
  return { method, path, body: text, headers }
}

function nameOf({ method, path }: ApiCall): string {
  return `${method} ${path.replace(/\?.*/, '')}`
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
