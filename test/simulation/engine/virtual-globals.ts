import { AsyncLocalStorage } from 'node:async_hooks'
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { performance } from 'node:perf_hooks'
import timersPromises from 'node:timers/promises'

/**
 * Time and chance for the code of a simulated process. Code that runs outside of one keeps those of the
 * machine, so that a simulation runs below a test runner.
 */
export interface Surroundings {
  wallMs(): number
  monotonicMs(): number
  /** The time for which the process has kept its event loop busy. */
  busyMs(): number
  random(): number
  startTimer(callback: () => void, delayMs: number, everyMs?: number): VirtualTimer
  startImmediate(callback: () => void): VirtualTimer
}

/** What `setTimeout` returns in a simulated process. */
export interface VirtualTimer {
  cancel(): void
  refresh(): this
  ref(): this
  unref(): this
  hasRef(): boolean
  close(): this
  [Symbol.toPrimitive](): number
  [Symbol.dispose](): void
}

const inside = new AsyncLocalStorage<Surroundings>()
let isInstalled = false
let isRunning = false

/** The macrotask of the machine, after which all microtasks have run. */
export const realTurn: (callback: () => void) => void = setImmediate

export function runInside<T>(surroundings: Surroundings, work: () => T): T {
  return inside.run(surroundings, work)
}

/**
 * While a simulation runs, a timer outside of its processes is a mistake: it would fire by the time of the
 * machine, and no run would be like another.
 */
export function setRunning(running: boolean): void {
  isRunning = running
}

function current(what: string): Surroundings | undefined {
  const found = inside.getStore()
  if (found === undefined && isRunning) throw new Error(`${what} was called outside of a simulated process`)
  return found
}

/** Replaces timers, clocks and random numbers, also those that modules have imported from Node. */
export function installVirtualGlobals(): void {
  if (isInstalled) return
  isInstalled = true
  const real = {
    setTimeout,
    clearTimeout,
    setInterval,
    clearInterval,
    setImmediate,
    clearImmediate,
    now: Date.now,
    random: Math.random,
    monotonic: performance.now.bind(performance),
    utilization: performance.eventLoopUtilization.bind(performance),
    pause: timersPromises.setTimeout,
    turn: timersPromises.setImmediate,
    bytes: crypto.randomBytes,
    integer: crypto.randomInt,
    uuid: crypto.randomUUID,
  }

  type Callback = (...values: unknown[]) => void
  const bound = (callback: Callback, values: unknown[]) =>
    values.length === 0 ? callback : () => callback(...values)
  const start = (callback: Callback, delayMs = 1, ...values: unknown[]) =>
    current('setTimeout')?.startTimer(bound(callback, values), delayMs) ??
    real.setTimeout(callback, delayMs, ...values)
  const repeat = (callback: Callback, everyMs = 1, ...values: unknown[]) =>
    current('setInterval')?.startTimer(bound(callback, values), everyMs, everyMs) ??
    real.setInterval(callback, everyMs, ...values)
  const soon = (callback: Callback, ...values: unknown[]) =>
    current('setImmediate')?.startImmediate(bound(callback, values)) ?? real.setImmediate(callback, ...values)
  const cancel = (realCancel: (timer: never) => void) => (timer: unknown) => {
    if (isVirtual(timer)) timer.cancel()
    else realCancel(timer as never)
  }
  Object.assign(globalThis, {
    setTimeout: start,
    setInterval: repeat,
    setImmediate: soon,
    clearTimeout: cancel(real.clearTimeout),
    clearInterval: cancel(real.clearInterval),
    clearImmediate: cancel(real.clearImmediate),
  })
  Date.now = () => inside.getStore()?.wallMs() ?? real.now()
  Math.random = () => inside.getStore()?.random() ?? real.random()
  Object.defineProperty(performance, 'now', {
    value: () => inside.getStore()?.monotonicMs() ?? real.monotonic(),
  })
  Object.defineProperty(performance, 'eventLoopUtilization', {
    value(before?: ReturnType<typeof real.utilization>) {
      const process = inside.getStore()
      if (process === undefined) return real.utilization(before)
      return { idle: 0, active: process.busyMs() - (before?.active ?? 0), utilization: 0 }
    },
  })
  Object.assign(timersPromises, {
    setTimeout: (delayMs?: number, value?: unknown, options: PauseOptions = {}) => {
      const process = current('setTimeout')
      if (process === undefined) return real.pause(delayMs, value, options)
      return waitFor(callback => process.startTimer(callback, delayMs ?? 1), value, options)
    },
    setImmediate: (value?: unknown, options: PauseOptions = {}) => {
      const process = current('setImmediate')
      if (process === undefined) return real.turn(value, options)
      return waitFor(callback => process.startImmediate(callback), value, options)
    },
  })
  Object.assign(crypto, {
    randomBytes: (size: number) => {
      const process = inside.getStore()
      if (process === undefined) return real.bytes(size)
      return Buffer.from(Array.from({ length: size }, () => Math.floor(256 * process.random())))
    },
    // Without a callback, as the repository calls it.
    randomInt: (one: number, other?: number) => {
      const process = inside.getStore()
      const [least, end] = other === undefined ? [0, one] : [one, other]
      return process === undefined
        ? real.integer(least, end)
        : least + Math.floor((end - least) * process.random())
    },
    randomUUID: () => {
      const process = inside.getStore()
      if (process === undefined) return real.uuid()
      const hex = Array.from({ length: 32 }, () => Math.floor(16 * process.random()).toString(16)).join('')
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
    },
  })
  syncBuiltinESMExports()
}

interface PauseOptions {
  readonly signal?: AbortSignal
  readonly ref?: boolean
}

function waitFor<T>(
  start: (callback: () => void) => VirtualTimer,
  value: T,
  { signal }: PauseOptions,
): Promise<T> {
  const aborted = () =>
    Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
      name: 'AbortError',
      code: 'ABORT_ERR',
    })
  if (signal?.aborted) return Promise.reject(aborted())
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const onAbort = () => {
    timer.cancel()
    reject(aborted())
  }
  const timer = start(() => {
    signal?.removeEventListener('abort', onAbort)
    resolve(value)
  })
  signal?.addEventListener('abort', onAbort, { once: true })
  return promise
}

function isVirtual(timer: unknown): timer is VirtualTimer {
  return typeof timer === 'object' && timer !== null && 'cancel' in timer
}
