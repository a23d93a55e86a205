/** Bounds how many keys of one address are looked up at once. */
export interface KeyLookups {
  /**
   * Runs a call that looks its key up. Waits while the address has the maximum of calls with keys that have
   * opened nothing in this process. Resolves with undefined when `isRefused` says so after a wait.
   */
  run<T>(call: KeyLookup<T>): Promise<T | undefined>
}

export interface KeyLookup<T> {
  readonly address: string
  /** The name of the key, never the key. */
  readonly key: string
  readonly isRefused: () => boolean
  readonly work: () => Promise<T>
  /** Whether the key opened something. */
  readonly opened: (result: T) => boolean
}

interface AddressLookups {
  running: number
  readonly waiting: (() => void)[]
}

/** The oldest proven keys are forgotten beyond this number. Their next call waits its turn again. */
const maxProven = 10_000

export function createKeyLookups(maxAtOnce: number): KeyLookups {
  const proven = new Set<string>()
  const addresses = new Map<string, AddressLookups>()

  function prove(key: string, opened: boolean): void {
    proven.delete(key)
    if (opened) proven.add(key)
    const [oldest] = proven
    if (proven.size > maxProven && oldest !== undefined) proven.delete(oldest)
  }

  async function enter(address: string, key: string): Promise<AddressLookups | undefined> {
    for (;;) {
      if (proven.has(key)) return undefined
      const lookups = addresses.get(address) ?? { running: 0, waiting: [] }
      addresses.set(address, lookups)
      if (lookups.running < maxAtOnce) {
        lookups.running += 1
        return lookups
      }
      await new Promise<void>(resolve => lookups.waiting.push(resolve))
    }
  }

  function leave(address: string, lookups: AddressLookups): void {
    lookups.running -= 1
    // All retry: the key may be known now, or the address rejected.
    for (const wake of lookups.waiting.splice(0)) wake()
    if (lookups.running === 0) addresses.delete(address)
  }

  return {
    async run({ address, key, isRefused, work, opened }) {
      const lookups = await enter(address, key)
      try {
        if (isRefused()) return undefined
        const result = await work()
        prove(key, opened(result))
        return result
      } finally {
        if (lookups !== undefined) leave(address, lookups)
      }
    },
  }
}
