/**
 * Measures each contestant once a round, in turn, so that changes of the machine's speed affect all of them.
 * Every second round is in reverse order. Returns a list of rounds for each, in their order.
 */
export async function inTurn<T, M>(
  contestants: readonly T[],
  rounds: number,
  measure: (contestant: T, round: number) => Promise<M>,
): Promise<readonly (readonly M[])[]> {
  const results: M[][] = contestants.map(() => [])
  for (let round = 0; round < rounds; round++) {
    const places = [...contestants.keys()]
    if (round % 2 === 1) places.reverse()
    for (const place of places) {
      const contestant = contestants[place]
      if (contestant !== undefined) results[place]?.push(await measure(contestant, round))
    }
  }
  return results
}
