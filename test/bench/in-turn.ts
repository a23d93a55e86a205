/**
 * Measures each of the contestants once a round, in turn, so that a change of the machine's speed meets all
 * of them. Every second round goes the other way round. Answers a list of rounds for each, in their order.
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
