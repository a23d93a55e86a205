/**
 * Collects items, and processes each of them at the end of the turn of the event loop. All share one
 * immediate: separate ones would each cost an object and a list entry, a hundred of them for a message to a
 * hundred consumers.
 */
export function atTurnEnd<Item>(act: (item: Item) => void): (item: Item) => void {
  let waiting: Item[] = []

  function actOnAll(): void {
    const items = waiting
    waiting = []
    for (const item of items) act(item)
  }

  return item => {
    if (waiting.push(item) === 1) setImmediate(actOnAll)
  }
}
