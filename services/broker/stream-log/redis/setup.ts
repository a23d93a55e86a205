import type { Clock } from '@tollway/chassis/clock.ts'
import type { ByteBudget } from '../byte-budget.ts'
import type { Repeat } from '../repeat.ts'
import type { RedisConnection } from './connection.ts'
import type { RedisKeys } from './keys.ts'

export interface RedisLogSetup {
  /** Unique among all processes that ever ran. */
  readonly podId: string
  readonly keys: RedisKeys
  /** The connection for all commands that do not block. */
  readonly commands: RedisConnection
  readonly clock: Clock
  readonly repeat: Repeat
  readonly timings: RedisLogTimings
  /**
   * The budget for bytes in the memory of this broker, and for bytes in Redis of requests whose producers are
   * here.
   */
  readonly budget: ByteBudget
}

export interface RedisLogTimings {
  /** A broker sends its heartbeat and reads the others in this interval. */
  readonly heartbeatMs: number
  /** A broker without a changed heartbeat for this time is lost, with the requests of its producers. */
  readonly lostMs: number
  /**
   * When a producer begins its request again, its broker is asked; without an answer or heartbeat in this
   * time, the broker is lost. Longer than `heartbeatMs`, since earlier versions do not answer.
   */
  readonly answerMs: number
  /** The whole directory is read in this interval, to repair missed changes. */
  readonly directoryMs: number
  /**
   * A request ends with an error if Redis does not accept its entries within this time. Readers of other
   * brokers' requests wait twice as long.
   */
  readonly unavailableMs: number
  /** Positions of readers are reported in this interval. */
  readonly positionsMs: number
  /** The timeout to connect, and for a pending reply while Redis sends nothing. */
  readonly stallMs: number
  /** How long Redis keeps requests of a broker without a heartbeat. */
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
 * The expiry of the directory and the epoch without use. They outlive requests, so that later requests get a
 * greater epoch.
 */
export const directoryExpiryMs = 3_600_000

/** Redis keeps an ended request this much longer than `keepMs`, for brokers that still read it. */
export const endGraceMs = 2_000
