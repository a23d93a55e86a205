/** A number of places, and the queues that wait for one, in their order. */
export interface Places {
  /** Returns whether there was a place. If not, calls `onFree` when there is one, which has to take it. */
  take(onFree: () => void): boolean
  release(): void
}

export function createPlaces(count: number): Places {
  const waiting = new Set<() => void>()
  let free = count
  return {
    take(onFree) {
      if (free === 0) {
        waiting.add(onFree)
        return false
      }
      free -= 1
      return true
    },
    release() {
      free += 1
      for (const onFree of waiting) {
        if (free === 0) return
        waiting.delete(onFree)
        onFree()
      }
    },
  }
}
