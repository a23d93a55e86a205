/**
 * Returns a function that collects items. At the end of the turn of the event loop, `act` is called with each
 * of them. All items share one immediate: a separate one for each would cost an object and a list entry, a
 * hundred of them when a message goes to a hundred consumers.
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
