import type { Clock } from '@tollway/chassis/clock.ts'
import { type Storage, StorageError } from '../storage.ts'

interface StorageMeter {
  ended(outcome: string, ms: number): void
}

export interface MeasuredStorage extends Storage {
  /** Returns the number of transactions and reads that run or wait for a connection. */
  running(): number
}

/** Wraps a storage. Reports the outcome and the duration of each transaction and read to `meter`. */
export function measureStorage(storage: Storage, meter: StorageMeter, clock: Clock): MeasuredStorage {
  let running = 0

  async function measured<T>(run: () => Promise<T>): Promise<T> {
    const startMs = clock.monotonicMs()
    let outcome = 'committed'
    running += 1
    try {
      return await run()
    } catch (error) {
      outcome = error instanceof StorageError ? error.code : 'rolled back'
      throw error
    } finally {
      running -= 1
      meter.ended(outcome, clock.monotonicMs() - startMs)
    }
  }

  return {
    running: () => running,
    close: () => storage.close(),
    transaction: (work, options) => measured(() => storage.transaction(work, options)),
    read: work => measured(() => storage.read(work)),
  }
}
