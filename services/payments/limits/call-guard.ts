import { hash } from 'node:crypto'
import type { Clock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { createRateLimit } from '@tollway/chassis/limits/rate-limit.ts'
import type { CallLimits, CallRefusal } from './call-limits.ts'
import { createKeyLookups } from './key-lookups.ts'

/** Decides which calls of the API run at all. */
export interface CallGuard {
  /** Counts a call before its key is looked up. @param apiKey null without one */
  admit(address: string, apiKey: string | null): Promise<CallRefusal | null>
  /** Counts a key that opened nothing. While the address is over that limit, `admit` refuses it. */
  countFailedKey(address: string): Promise<CallRefusal | null>
  /**
   * Runs a call that looks its key up. Of one address, only some run at once with keys that have opened
   * nothing in this process; the others wait, and are refused when the failed keys of the address have come
   * to their limit.
   *
   * @param isUnknown whether the result says that the key opens nothing
   */
  lookUp<T>(
    caller: { readonly address: string; readonly apiKey: string },
    work: () => Promise<T>,
    isUnknown: (result: T) => boolean,
  ): Promise<T | CallRefusal>
}

/** @param onRefused called for each call that is refused */
export function createCallGuard(
  limits: CallLimits,
  clock: Clock,
  onRefused: (refusal: CallRefusal) => void = () => {},
): CallGuard {
  /** Holds only blocks, so its own rate does not matter. */
  const blocked = createRateLimit(1, clock)
  const lookups = createKeyLookups(maxUnprovenAtOnce)
  const report = (refusal: CallRefusal | null) => {
    if (refusal !== null) onRefused(refusal)
    return refusal
  }
  async function countFailedKey(address: string): Promise<CallRefusal | null> {
    const value = addressKey(address)
    const refusal = await limits.take([{ rule: 'failed_key', value }])
    if (refusal !== null) blocked.block(value, refusal.waitMs)
    return report(refusal)
  }

  return {
    async admit(address, apiKey) {
      const value = addressKey(address)
      const waitMs = blocked.waitOf(value)
      if (waitMs > 0) return report({ rule: 'failed_key', waitMs })
      const hits = [{ rule: 'address', value }] as const
      if (apiKey === null) return report(await limits.take(hits))
      return report(await limits.take([...hits, { rule: 'key', value: nameOfKey(apiKey) }]))
    },
    countFailedKey,
    async lookUp({ address, apiKey }, work, isUnknown) {
      const value = addressKey(address)
      const outcome = await lookups.run({
        address: value,
        key: nameOfKey(apiKey),
        isRefused: () => blocked.waitOf(value) > 0,
        async work() {
          const result = await work()
          const unknown = isUnknown(result)
          // Counted before the next key of the address is looked up.
          return { result, unknown, refusal: unknown ? await countFailedKey(address) : null }
        },
        opened: ({ unknown }) => !unknown,
      })
      const refused = { rule: 'failed_key', waitMs: blocked.waitOf(value) } as const
      if (outcome === undefined) return report(refused) ?? refused
      return outcome.refusal ?? outcome.result
    },
  }
}

/** Calls of one address that run at once with keys that have opened nothing in this process. */
const maxUnprovenAtOnce = 8
const nameCharacters = 32

/** The name of a key for counters and the rate limit service. It is not the hash that the database has. */
function nameOfKey(apiKey: string): string {
  return hash('sha256', `calls of ${apiKey}`, 'hex').slice(0, nameCharacters)
}
