import type { Clock } from '@tollway/chassis/clock.ts'
import type { ByteBudget } from '../byte-budget.ts'
import type { Repeat } from '../repeat.ts'
import type { RedisConnection } from './connection.ts'
import type { RedisKeys } from './keys.ts'

/** What all parts of a log in Redis share. */
export interface RedisLogSetup {
  /** The name of this broker, unique among all processes that ever ran. */
  readonly podId: string
  readonly keys: RedisKeys
  /** The connection for all commands that do not block. */
  readonly commands: RedisConnection
  readonly clock: Clock
  readonly repeat: Repeat
  readonly timings: RedisLogTimings
  /** The budget for the bytes in this broker's memory, and in Redis for the requests of its producers. */
  readonly budget: ByteBudget
}

export interface RedisLogTimings {
  /** The interval in which a broker sends its heartbeat and reads those of the others. */
  readonly heartbeatMs: number
  /**
   * A broker whose heartbeat has not changed for this time is lost, and so are the requests of its producers.
   */
  readonly lostMs: number
  /**
   * When a producer begins its request again, the broker to which it was connected is asked about it. A
   * broker that sends neither an answer nor a heartbeat for this time counts as lost. Longer than
   * `heartbeatMs`, since brokers of earlier versions do not answer.
   */
  readonly answerMs: number
  /** The interval in which the whole directory is read, to repair missed changes. */
  readonly directoryMs: number
  /**
   * If Redis does not accept appended entries within this time, their request ends with an error. Readers of
   * other brokers' requests wait twice as long for Redis.
   */
  readonly unavailableMs: number
  /**
   * The interval in which a broker reports the positions of its readers to the brokers of producers that wait
   * for them.
   */
  readonly positionsMs: number
  /** The timeout to connect, and for a pending reply while Redis sends nothing. */
  readonly stallMs: number
  /** Redis keeps the requests of a broker without a heartbeat for this time. */
  readonly orphanMs: number
}

export const defaultTimings: RedisLogTimings = {
  heartbeatMs: 1_000,
  lostMs: 5_000,
  answerMs: 1_500,
  directoryMs: 5_000,
  unavailableMs: 5_000,
  positionsMs: 100,
  stallMs: 2_000,
  orphanMs: 60_000,
}

/**
 * The directory and the epoch expire when they are not used for this time. They outlive requests, so that
 * later requests get a greater epoch.
 */
export const directoryExpiryMs = 3_600_000

/** Redis keeps an ended request this much longer than `keepMs`, for brokers that are still reading it. */
export const endGraceMs = 2_000
