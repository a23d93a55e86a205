import type { Clock } from '@tollway/chassis/clock.ts'
import {
  type Channel,
  type ChannelListener,
  CountersError,
} from '../../../services/ratelimit/counters/counters.ts'
import type { Network } from '../engine/network.ts'
import { epochMs, type SimulatedProcess, type Simulation } from '../engine/simulation.ts'

/** The name of Redis in links. */
export const redisName = 'redis'

/** The time limit of calls, of which the seed chooses one. */
const callTimeoutsMs = [150, 1_000, 3_000]
/** How often a subscription asks whether it has missed a message. */
const subscriptionCheckMs = 1_000

interface Subscriber {
  readonly process: SimulatedProcess
  readonly name: string
  readonly listener: ChannelListener
  /** The number of the last message that was sent to it, and that has arrived. */
  sent: number
  arrived: number
  arrivalMs: number
}

/**
 * A Redis as pods see it: one process with the counters in memory, whose calls and answers may be late or lost. It
 * keeps its data. Its scripts are those of the contract suites in services/ratelimit/counters/testing/.
 */
export class SimulatedRedis<State> {
  readonly #simulation: Simulation
  readonly #network: Network
  readonly #subscribers = new Set<Subscriber>()
  readonly #process: SimulatedProcess
  /** The time of the command that runs. */
  readonly clock: Clock = { nowMs: () => this.#wallMs, monotonicMs: () => this.#monotonicMs }
  readonly #callTimeoutMs: number
  #wallMs = 0
  #monotonicMs = 0
  #state: State | undefined

  constructor(simulation: Simulation, network: Network, open: (clock: Clock) => State) {
    this.#simulation = simulation
    this.#network = network
    this.#callTimeoutMs =
      callTimeoutsMs[Math.floor(callTimeoutsMs.length * simulation.fraction('timeout'))] ?? 0
    this.#process = simulation.start(redisName, () => {
      this.#readClock()
      this.#state = open(this.clock)
    })
  }

  /** Runs the work in Redis. No call is sent twice. The answer may be lost although the work was done. */
  call<T>(process: SimulatedProcess, work: (state: State) => T): Promise<Awaited<T>> {
    const { promise, resolve, reject } = Promise.withResolvers<Awaited<T>>()
    const timer = process.startTimer(
      () => reject(new CountersError(`no answer within ${this.#callTimeoutMs} ms`)),
      this.#callTimeoutMs,
    )
    this.#run(process, state => {
      const answer = work(state) as Awaited<T>
      this.#network.send(redisName, process.name, () =>
        process.soon(() => {
          timer.cancel()
          resolve(answer)
        }),
      )
    })
    return promise
  }

  openChannel(process: SimulatedProcess, name: string, listener: ChannelListener): Channel {
    const subscriber = { process, name, listener, sent: 0, arrived: -1, arrivalMs: 0 }
    process.onEnd(() => this.#subscribers.delete(subscriber))
    const check = () => {
      this.#run(process, () => {
        this.#subscribers.add(subscriber)
        this.#deliver(subscriber, () => this.#arrive(subscriber, subscriber.sent))
      })
    }
    check()
    process.startTimer(check, subscriptionCheckMs, subscriptionCheckMs)
    return {
      publish: messages => {
        for (const message of messages) this.#run(process, () => this.#publish(name, message))
      },
    }
  }

  /** A command comes over a connection, which may lose it but does not repeat it. */
  #run(process: SimulatedProcess, work: (state: State) => void): void {
    let hasArrived = false
    this.#network.send(process.name, redisName, () =>
      this.#process.soon(() => {
        if (this.#state === undefined || hasArrived) return
        hasArrived = true
        this.#readClock()
        work(this.#state)
      }),
    )
  }

  /** Once for each command, as Redis does. */
  #readClock(): void {
    const { clock } = this.#process
    this.#monotonicMs = clock.monotonicMs()
    this.#wallMs = this.#monotonicMs + epochMs + this.#process.wallOffsetMs
  }

  #publish(name: string, message: string): void {
    for (const subscriber of this.#subscribers) {
      if (subscriber.name !== name) continue
      subscriber.sent += 1
      const { sent } = subscriber
      this.#deliver(subscriber, () => this.#arrive(subscriber, sent, message))
    }
  }

  /** A message after a lost one tells that the connection was lost meanwhile. */
  #arrive(subscriber: Subscriber, number: number, message?: string): void {
    const isNext = message === undefined ? number === subscriber.arrived : number === subscriber.arrived + 1
    subscriber.arrived = Math.max(subscriber.arrived, number)
    if (!isNext) subscriber.listener.onGap()
    if (message !== undefined) subscriber.listener.onMessage(message)
  }

  /** Messages keep their order: they come over one connection. */
  #deliver(subscriber: Subscriber, work: () => void): void {
    const { process } = subscriber
    const { isCut, lossShare } = this.#network.faults(redisName, process.name)
    const { nowMs } = this.#simulation
    if (isCut || this.#simulation.fraction('message', process.name, nowMs) < lossShare) return
    const delayMs = this.#network.nextDelayMs(redisName, process.name)
    subscriber.arrivalMs = Math.max(subscriber.arrivalMs, nowMs + delayMs)
    process.after(subscriber.arrivalMs - nowMs, work)
  }
}
