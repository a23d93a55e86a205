import type { Clock } from '@tollway/chassis/clock.ts'
import { EventQueue, type QueuedEvent } from './event-queue.ts'
import { hash32, hashFraction, mix32 } from './hash.ts'
import {
  installVirtualGlobals,
  realTurn,
  runInside,
  type Surroundings,
  setRunning,
  type VirtualTimer,
} from './virtual-globals.ts'

/** Simulated time begins at this time of the wall clock. */
export const epochMs = Date.UTC(2026, 0, 1)

/** A run with more events is one that never ends. */
const maxSteps = 200_000

/** The events that run before Node asks the kernel for news, of which a simulation has none. */
const batchSteps = 100

/** A line of the trace: what a process did, or what happened to it. */
export interface TraceLine {
  readonly atMs: number
  readonly who: string
  readonly what: string
}

/** An invariant that did not hold. The same name in another run means the same failure. */
export interface Violation extends TraceLine {
  /** The invariant in a few words: `a configuration is never mixed`. */
  readonly invariant: string
}

interface Step extends QueuedEvent {
  readonly owner: SimulatedProcess | undefined
  work: (() => void) | undefined
}

/**
 * A run in virtual time. All processes share one thread: the next event is the earliest one, and of several
 * at the same time the seed chooses. After each event all promises that can settle have settled, so that a
 * run depends on nothing but its seed and its events.
 */
export class Simulation {
  readonly seed: number
  readonly trace: TraceLine[] = []
  violation: Violation | undefined
  /** The number of events that have run. */
  steps = 0
  readonly #queue = new EventQueue<Step>()
  readonly #processes = new Map<string, SimulatedProcess>()
  readonly #lives = new Map<string, number>()
  readonly #checks: (() => void)[] = []
  #nowMs = 0
  /** Whether an event has run that no check has seen. */
  #isUnchecked = false
  #numbers = 0
  #digest = 0
  #otherDigest = 1

  constructor(seed: number) {
    this.seed = seed
    installVirtualGlobals()
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** A hash of all events and of the trace: two runs with the same digest were the same. */
  get digest(): string {
    const hex = (value: number) => (value >>> 0).toString(16).padStart(8, '0')
    return `${hex(this.#digest)}${hex(this.#otherDigest)}`
  }

  /** Returns a number in [0, 1) that the seed and the parts decide, in whatever order it is asked for. */
  fraction(...parts: readonly (string | number)[]): number {
    return hashFraction(this.seed, ...parts)
  }

  /** Starts a process. One of this name that still runs is killed. */
  start(name: string, main: (process: SimulatedProcess) => void): SimulatedProcess {
    this.kill(name)
    const life = (this.#lives.get(name) ?? 0) + 1
    this.#lives.set(name, life)
    const process = new SimulatedProcess(this, name, life)
    this.#processes.set(name, process)
    process.soon(() => main(process))
    return process
  }

  /** Returns the running or paused process of this name. */
  find(name: string): SimulatedProcess | undefined {
    return this.#processes.get(name)
  }

  /** SIGKILL: no line of the process runs any more. */
  kill(name: string): void {
    const process = this.#processes.get(name)
    if (process === undefined) return
    this.#processes.delete(name)
    process.end()
  }

  /** Runs an action of the world, which belongs to no process. */
  after(delayMs: number, work: () => void): void {
    this.add(this.#nowMs + Math.max(0, delayMs), undefined, work)
  }

  /** Starts a process after a time, unless one of its name runs then. */
  startLater(name: string, delayMs: number, start: (name: string) => void): void {
    this.after(delayMs, () => {
      if (this.find(name) === undefined) start(name)
    })
  }

  /** Adds a check that runs after each event. */
  onStep(check: () => void): void {
    this.#checks.push(check)
  }

  note(who: string, what: string): void {
    this.trace.push({ atMs: this.#nowMs, who, what })
    this.#mix(hash32(this.#nowMs, who, what))
  }

  /** Ends the run, because an invariant does not hold. Only the first call counts. */
  fail(who: string, invariant: string, what: string): void {
    if (this.violation !== undefined) return
    this.violation = { atMs: this.#nowMs, who, what, invariant }
    this.#mix(hash32(this.#nowMs, who, invariant, what))
  }

  /** @returns the step, whose `work` may be removed to cancel it */
  add(
    atMs: number,
    owner: SimulatedProcess | undefined,
    work: () => void,
  ): { work: (() => void) | undefined } {
    this.#numbers += 1
    const tie = mix32(
      Math.imul(this.seed, 31) ^ (owner?.id ?? 0) ^ Math.imul(Math.trunc(atMs * 1000), 0x9e3779b1),
    )
    const step = { atMs, tie, number: this.#numbers, owner, work }
    this.#queue.add(step)
    return step
  }

  /** Runs all events up to this time, or until an invariant does not hold. */
  async run(untilMs: number): Promise<void> {
    setRunning(true)
    const onRejection = (error: unknown) => this.fail('process', 'a process never crashes', describe(error))
    // A test runner also listens, and would report the same error as its own.
    const listeners = process.listeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection')
    process.on('unhandledRejection', onRejection)
    try {
      while (await this.#runBatch(untilMs));
      if (this.violation === undefined) this.#nowMs = Math.max(this.#nowMs, untilMs)
    } finally {
      process.off('unhandledRejection', onRejection)
      for (const listener of listeners) process.on('unhandledRejection', listener)
      setRunning(false)
    }
  }

  /**
   * Runs up to `batchSteps` events, each in a macrotask of its own. Node drains the microtasks after each of them, and
   * asks the kernel for news only after the last. Returns whether there may be more events.
   */
  #runBatch(untilMs: number): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    let isOver = false
    const turn = () => {
      try {
        isOver ||= !this.#runNext(untilMs)
      } catch (error) {
        isOver = true
        reject(error)
      }
    }
    for (let count = 0; count < batchSteps; count++) realTurn(turn)
    realTurn(() => resolve(!isOver))
    return promise
  }

  /** Checks what the last event has left, and runs the next one. Returns whether there was one. */
  #runNext(untilMs: number): boolean {
    if (this.#isUnchecked) for (const check of this.#checks) check()
    this.#isUnchecked = false
    if (this.steps > maxSteps) this.fail('world', 'the world comes to rest', `${maxSteps} events have run`)
    while (this.violation === undefined) {
      const next = this.#queue.first
      if (next === undefined || next.atMs > untilMs) return false
      this.#queue.take()
      if (!this.#runStep(next)) continue
      this.#isUnchecked = true
      return true
    }
    return false
  }

  /** Returns whether the event has run. */
  #runStep(step: Step): boolean {
    const { owner, work, atMs, number } = step
    if (work === undefined || owner?.hasEnded) return false
    this.#nowMs = Math.max(this.#nowMs, atMs)
    if (owner?.holds(step)) return false
    step.work = undefined
    this.steps += 1
    this.#mix(Math.trunc(atMs * 1000) ^ Math.imul(number, 0x01000193) ^ (owner?.id ?? 0))
    try {
      if (owner === undefined) work()
      else runInside(owner, work)
    } catch (error) {
      this.fail(owner?.name ?? 'world', 'a process never crashes', describe(error))
    }
    return true
  }

  #mix(value: number): void {
    this.#digest = mix32(this.#digest ^ value)
    this.#otherDigest = mix32(Math.imul(this.#otherDigest, 0x9e3779b1) + value)
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : `${error}`
}

/** A process of a simulation, from its start to its end. Its timers and its clock belong to it. */
export class SimulatedProcess implements Surroundings {
  readonly name: string
  /** The number of this start, from 1. */
  readonly life: number
  readonly id: number
  readonly clock: Clock = { nowMs: () => this.wallMs(), monotonicMs: () => this.monotonicMs() }
  hasEnded = false
  isPaused = false
  /** The difference of its wall clock from that of the others. */
  wallOffsetMs = 0
  /**
   * The time that passes whenever the process reads a clock, 0 for a fast machine. With a slow one, work that
   * is divided into slices is interrupted.
   */
  clockReadMs = 0
  readonly #simulation: Simulation
  readonly #held: { work: (() => void) | undefined }[] = []
  readonly #onEnd: (() => void)[] = []
  #busyUntilMs = 0
  #busyMs = 0
  #drawn = 0

  constructor(simulation: Simulation, name: string, life: number) {
    this.#simulation = simulation
    this.name = name
    this.life = life
    this.id = hash32(name, life)
  }

  wallMs(): number {
    return epochMs + this.monotonicMs() + this.wallOffsetMs
  }

  monotonicMs(): number {
    const nowMs = Math.max(this.#simulation.nowMs, this.#busyUntilMs)
    if (this.clockReadMs === 0) return nowMs
    this.#busyMs += this.clockReadMs
    this.#busyUntilMs = nowMs + this.clockReadMs
    return this.#busyUntilMs
  }

  busyMs(): number {
    return this.#busyMs
  }

  random(): number {
    this.#drawn += 1
    return (
      mix32(this.id ^ Math.imul(this.#simulation.seed, 0x85ebca6b) ^ Math.imul(this.#drawn, 0x9e3779b1)) /
      2 ** 32
    )
  }

  /** Looks at something in the process at once, which takes the process no time. */
  look<T>(work: () => T): T {
    const { clockReadMs } = this
    this.clockReadMs = 0
    try {
      return runInside(this, work)
    } finally {
      this.clockReadMs = clockReadMs
    }
  }

  /** Runs the work in this process, after this time. */
  after(delayMs: number, work: () => void): { work: (() => void) | undefined } {
    return this.#simulation.add(this.#simulation.nowMs + delayMs, this, work)
  }

  soon(work: () => void): void {
    this.after(0, work)
  }

  /** Timers fire at whole milliseconds, as those of Node, so that they may be up to 1 ms early. */
  startTimer(callback: () => void, delayMs: number, everyMs?: number): VirtualTimer {
    return new Timer(this.#simulation, this, callback, Math.max(1, delayMs), everyMs)
  }

  startImmediate(callback: () => void): VirtualTimer {
    return new Timer(this.#simulation, this, callback, 0, undefined)
  }

  note(what: string): void {
    this.#simulation.note(this.name, what)
  }

  /** SIGSTOP: the work of the process waits until `resume`. */
  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
    this.#wake()
  }

  /** Called when the process has ended, by whatever cause: the kernel closes its connections. */
  onEnd(listener: () => void): void {
    this.#onEnd.push(listener)
  }

  end(): void {
    this.hasEnded = true
    for (const listener of this.#onEnd.splice(0)) listener()
  }

  /** Keeps the step for later, and returns true, if the process is paused or busy, or has earlier steps to run. */
  holds(step: { work: (() => void) | undefined }): boolean {
    if (!this.isPaused && !this.#isBusy() && this.#held.length === 0) return false
    this.#held.push(step)
    if (this.#held.length === 1) this.#wake()
    return true
  }

  #isBusy(): boolean {
    return this.#busyUntilMs > this.#simulation.nowMs
  }

  #wake(): void {
    if (this.isPaused || this.#held.length === 0) return
    this.#simulation.add(Math.max(this.#simulation.nowMs, this.#busyUntilMs), undefined, () =>
      this.#runHeld(),
    )
  }

  /** Runs the first step that was held, if the process is no longer paused and busy. */
  #runHeld(): void {
    if (this.isPaused || this.hasEnded) return
    if (!this.#isBusy()) {
      // A timer that was cancelled meanwhile has no work.
      const step = this.#held.shift()
      const work = step?.work
      if (step) step.work = undefined
      if (work) runInside(this, work)
    }
    this.#wake()
  }
}

class Timer implements VirtualTimer {
  readonly #simulation: Simulation
  readonly #owner: SimulatedProcess
  readonly #callback: () => void
  readonly #delayMs: number
  readonly #everyMs: number | undefined
  #step: { work: (() => void) | undefined } | undefined

  constructor(
    simulation: Simulation,
    owner: SimulatedProcess,
    callback: () => void,
    delayMs: number,
    everyMs: number | undefined,
  ) {
    this.#simulation = simulation
    this.#owner = owner
    this.#callback = callback
    this.#delayMs = delayMs
    this.#everyMs = everyMs
    this.#schedule()
  }

  #schedule(): void {
    const { nowMs } = this.#simulation
    const atMs = this.#delayMs === 0 ? nowMs : Math.max(nowMs, Math.floor(nowMs + this.#delayMs))
    this.#step = this.#simulation.add(atMs, this.#owner, () => {
      this.#step = undefined
      if (this.#everyMs !== undefined) this.#schedule()
      this.#callback()
    })
  }

  cancel(): void {
    if (this.#step !== undefined) this.#step.work = undefined
    this.#step = undefined
  }

  refresh(): this {
    this.cancel()
    this.#schedule()
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  close(): this {
    this.cancel()
    return this
  }

  [Symbol.toPrimitive](): number {
    return 0
  }

  [Symbol.dispose](): void {
    this.cancel()
  }
}
