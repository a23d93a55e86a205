import type { Clock } from '@tollway/chassis/clock.ts'
import type { Repeat } from '../../repeat.ts'
import type { ByteBudget } from '../byte-budget.ts'
import type { RedisConnection } from './connection.ts'
import type { RedisKeys } from './keys.ts'

/** What the parts of a log in Redis share. */
export interface RedisLogSetup {
  /** Unlike that of any other process, ever. */
  readonly podId: string
  readonly keys: RedisKeys
  /** For everything that does not block. */
  readonly commands: RedisConnection
  readonly clock: Clock
  readonly repeat: Repeat
  readonly timings: RedisLogTimings
  /** What this broker may hold in its memory, and what Redis may hold of its producers' requests. */
  readonly budget: ByteBudget
}

export interface RedisLogTimings {
  /** How often a broker shows that it lives, and looks whether the others do. */
  readonly heartbeatMs: number
  /** A broker that has not shown it for so long is lost, and so are the requests of its producers. */
  readonly lostMs: number
  /** How often the whole directory is read, in case that something was missed. */
  readonly directoryMs: number
  /**
   * A producer waits so long for Redis to take what it has appended, then its request ends with an error.
   * Readers of other brokers' requests wait twice as long for Redis.
   */
  readonly awayMs: number
  /** How often the brokers of producers that wait are told how far their readers here are, if need be. */
  readonly positionsMs: number
  /** A connection that is not made, or owes a reply and brings nothing, for so long is given up. */
  readonly stallMs: number
  /** How long Redis keeps a request of which its broker is not heard any more. */
  readonly orphanMs: number
}

export const defaultTimings: RedisLogTimings = {
  heartbeatMs: 1_000,
  lostMs: 5_000,
  directoryMs: 5_000,
  awayMs: 5_000,
  positionsMs: 100,
  stallMs: 2_000,
  orphanMs: 60_000,
}

/** The directory and the epoch outlive requests, so that their order holds; they go when nobody uses them. */
export const directoryExpiryMs = 3_600_000

/** So much longer than `keepMs` Redis has an ended request, for the brokers that still read it. */
export const endGraceMs = 2_000
