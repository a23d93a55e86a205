/**
 * Returns a function that collects items, for each of which `act` is called at the end of the turn of the
 * event loop. They share one immediate: a hundred of them, when a message goes to a hundred consumers, would
 * cost a hundred objects and list entries.
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
