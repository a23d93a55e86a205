import { createNode, type MemcachedNode, type NodeOptions } from './node.ts'
import { pickServer } from './pick-server.ts'
import type { ServerAddress } from './server-list.ts'

/** The servers in their order, connected, and which of them has a key. */
export interface NodeList {
  /**
   * From now on these are the servers. Connections to those that were there already stay; those to others end
   * when what they owe must have been answered.
   */
  set(servers: readonly ServerAddress[]): void
  /** Why there are no servers. */
  setProblem(problem: string): void
  /** Undefined while there are no servers. */
  nodeOf(key: string): MemcachedNode | undefined
  /** Whether any server is, since each of them was tried. */
  healthy(): boolean
  /** Why none is. */
  problem(): string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  close(): Promise<void>
}

export interface NodeListOptions extends NodeOptions {
  /** Told when a server is lost, is back, or cannot be reached at first. */
  readonly onWarning: (text: string) => void
}

export function createNodeList(options: NodeListOptions): NodeList {
  const { deadlineMs, onWarning } = options
  const listeners: ((healthy: boolean) => void)[] = []
  /** By their addresses; one that stands twice in the list is one node. */
  let nodes = new Map<string, MemcachedNode>()
  let order: readonly MemcachedNode[] = []
  const leaving = new Map<MemcachedNode, NodeJS.Timeout>()
  const lost = new Set<MemcachedNode>()
  let noServers = 'the servers of memcached are not known yet'
  let healthy = false
  let closed = false

  function isHealthy(): boolean {
    const all = [...nodes.values()].map(node => node.connection)
    return all.some(connection => connection.healthy) && (healthy || all.every(({ tried }) => tried))
  }

  function checkHealth(): void {
    const next = isHealthy()
    if (next === healthy) return
    healthy = next
    for (const listener of listeners) listener(next)
  }

  function onChange(node: MemcachedNode): void {
    if (!closed && !leaving.has(node)) tell(node)
    checkHealth()
  }

  function tell(node: MemcachedNode): void {
    if (!node.connection.healthy) {
      lost.add(node)
      onWarning(`${node.problem()}; calls with a key of this server fail until it is back`)
    } else if (lost.delete(node)) onWarning(`memcached ${node.address.text} is back`)
  }

  /** Calls that run are answered by then, or rejected. */
  function leave(node: MemcachedNode): void {
    lost.delete(node)
    leaving.set(
      node,
      setTimeout(() => {
        // Not before it is closed, or its end would count as an outage.
        void node.close().then(() => leaving.delete(node))
      }, deadlineMs),
    )
  }

  return {
    set(servers) {
      const former = nodes
      nodes = new Map()
      order = servers.map(address => {
        const node =
          nodes.get(address.text) ?? former.get(address.text) ?? createNode(address, options, onChange)
        nodes.set(address.text, node)
        return node
      })
      for (const [text, node] of former) if (!nodes.has(text)) leave(node)
      checkHealth()
    },
    setProblem(problem) {
      noServers = problem
    },
    nodeOf: key => order[pickServer(key, order.length)],
    healthy: () => healthy,
    problem() {
      if (order.length === 0) return noServers
      return order.find(node => !node.connection.healthy)?.problem() ?? ''
    },
    onHealth: listener => listeners.push(listener),
    async close() {
      closed = true
      for (const timer of leaving.values()) clearTimeout(timer)
      await Promise.all([...nodes.values(), ...leaving.keys()].map(node => node.close()))
    },
  }
}
