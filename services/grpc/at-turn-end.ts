/**
 * Gathers items, and acts on each of them at the end of the turn of the event loop. One immediate for all: of its own
 * each would cost an object and a place in a list, of which a message to a hundred consumers would need a hundred.
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
