import type { Channel, ChannelListener } from '../counters.ts'
import type { RedisSetup } from './redis-setup.ts'
import { RespConnection } from './resp/connection.ts'
import { isArrayReply, isErrorReply, type RedisReply } from './resp/reply-parser.ts'
import { sendCommand } from './resp/session.ts'

/** How often a subscription is checked: a lost one is noticed after this time and the stall timeout. */
const checkMs = 1_000

/**
 * Channels in Redis (PUBLISH and SUBSCRIBE). A subscription has a connection of its own, to the same Redis as
 * the counters; it follows them when they move.
 */
export class Channels {
  readonly #setup: RedisSetup
  readonly #findConnection: () => RespConnection | undefined
  readonly #subscriptions: Subscription[] = []

  /** @param findConnection returns the connection that publishes; undefined while Redis is unknown */
  constructor(setup: RedisSetup, findConnection: () => RespConnection | undefined) {
    this.#setup = setup
    this.#findConnection = findConnection
  }

  open(name: string, listener: ChannelListener): Channel {
    const reportOnce = this.#createReporter()
    const subscription = new Subscription(this.#setup, this.#findConnection, { name, listener, reportOnce })
    this.#subscriptions.push(subscription)
    return {
      publish: messages => {
        const connection = this.#findConnection()
        if (connection === undefined) return
        for (const message of messages) {
          void sendCommand(connection, 'PUBLISH', name, message).then(reportOnce)
        }
      },
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#subscriptions.map(subscription => subscription.close()))
  }

  /** Returns a function that warns of the first error reply. */
  #createReporter(): (reply: RedisReply) => void {
    let isReported = false
    return reply => {
      if (!isErrorReply(reply) || isReported) return
      isReported = true
      this.#setup.onWarning('announce changed counters failed', { reason: reply.error })
    }
  }
}

interface SubscriptionOptions {
  readonly name: string
  readonly listener: ChannelListener
  readonly reportOnce: (reply: RedisReply) => void
}

class Subscription {
  readonly #findConnection: () => RespConnection | undefined
  readonly #options: SubscriptionOptions
  readonly #connection: RespConnection
  readonly #timer: NodeJS.Timeout

  constructor(
    { session, newBackoff }: RedisSetup,
    findConnection: () => RespConnection | undefined,
    options: SubscriptionOptions,
  ) {
    const onPush = (reply: RedisReply) => this.#onReply(reply)
    this.#findConnection = findConnection
    this.#options = options
    this.#connection = new RespConnection({
      ...session,
      busyPoll: undefined,
      backoff: newBackoff(),
      onPush,
    })
    this.#connection.onHealth(healthy => {
      if (healthy) void this.#subscribe()
    })
    this.#check()
    this.#timer = setInterval(() => this.#check(), checkMs).unref()
  }

  close(): Promise<void> {
    clearInterval(this.#timer)
    return this.#connection.close()
  }

  async #subscribe(): Promise<void> {
    const { name, listener, reportOnce } = this.#options
    const reply = await sendCommand(this.#connection, 'SUBSCRIBE', name)
    reportOnce(reply)
    // Messages before this reply were missed.
    if (!isErrorReply(reply)) listener.onGap()
  }

  #check(): void {
    const endpoint = this.#findConnection()?.endpoint
    if (endpoint !== undefined) this.#connection.moveTo(endpoint)
    // The answer may be a message instead of the reply to PING.
    if (this.#connection.healthy) void sendCommand(this.#connection, 'PING').then(this.#onReply.bind(this))
  }

  #onReply(reply: RedisReply): void {
    if (!isArrayReply(reply) || reply[0] !== 'message' || typeof reply[2] !== 'string') return
    this.#options.listener.onMessage(reply[2])
  }
}
