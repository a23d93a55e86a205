import type { Clock } from '@tollway/chassis/clock.ts'
import type { ByteBudget } from '../byte-budget.ts'
import type { Repeat } from '../repeat.ts'
import type { RedisConnection } from './connection.ts'
import type { RedisKeys } from './keys.ts'

/** Shared by the parts of a log in Redis. */
export interface RedisLogSetup {
  /** Unique among all processes ever. */
  readonly podId: string
  readonly keys: RedisKeys
  /** The connection for all commands that do not block. */
  readonly commands: RedisConnection
  readonly clock: Clock
  readonly repeat: Repeat
  readonly timings: RedisLogTimings
  /** The maximum bytes in this broker's memory, and in Redis for its producers' requests. */
  readonly budget: ByteBudget
}

export interface RedisLogTimings {
  /** The interval in which a broker sends its heartbeat and checks those of the others. */
  readonly heartbeatMs: number
  /** A broker without a heartbeat for this time is lost, and so are the requests of its producers. */
  readonly lostMs: number
  /**
   * A broker that was asked about a producer and sends neither an answer nor a heartbeat for this time is
   * lost for a producer that begins its request again. Longer than `heartbeatMs`, since brokers of earlier
   * versions do not answer.
   */
  readonly answerMs: number
  /** The interval in which the whole directory is read, to repair missed changes. */
  readonly directoryMs: number
  /**
   * The maximum time for Redis to accept appended entries; then the request ends with an error. Readers of
   * other brokers' requests wait twice as long for Redis.
   */
  readonly unavailableMs: number
  /**
   * The interval of reports to the brokers of waiting producers about the positions of local readers, if
   * needed.
   */
  readonly positionsMs: number
  /** The timeout to connect, and for a pending reply without any data. */
  readonly stallMs: number
  /** The time that Redis keeps a request of a broker without a heartbeat. */
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

/** The directory and the epoch outlive requests, so that their order is kept; they expire without use. */
export const directoryExpiryMs = 3_600_000

/** Redis keeps an ended request this much longer than `keepMs`, for brokers that still read it. */
export const endGraceMs = 2_000
