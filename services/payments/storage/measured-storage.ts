import type { Clock } from '@tollway/chassis/clock.ts'
import { type Storage, StorageError } from './storage.ts'

export interface StorageMeter {
  /** `committed`, `rolled back`, or the code of a StorageError. */
  ended(outcome: string, ms: number): void
}

export interface MeasuredStorage extends Storage {
  /** Transactions that run or wait for a connection. */
  running(): number
}

/** The same storage, told of to a meter. */
export function measureStorage(storage: Storage, meter: StorageMeter, clock: Clock): MeasuredStorage {
  let running = 0
  return {
    running: () => running,
    close: () => storage.close(),
    async transaction(work, options) {
      const startMs = clock.monotonicMs()
      let outcome = 'committed'
      running += 1
      try {
        return await storage.transaction(work, options)
      } catch (error) {
        outcome = error instanceof StorageError ? error.code : 'rolled back'
        throw error
      } finally {
        running -= 1
        meter.ended(outcome, clock.monotonicMs() - startMs)
      }
    },
  }
}
