import { createNode, type MemcachedNode, type NodeOptions } from './node.ts'
import { pickServer } from './servers/pick-server.ts'
import type { ServerAddress } from './servers/server-list.ts'

/** The connected servers in their order. */
export interface NodeList {
  /**
   * Replaces the servers. Connections to servers that remain are kept; the others are closed when their calls
   * are settled.
   */
  set(servers: readonly ServerAddress[]): void
  /** Sets the reason why there are no servers. */
  setProblem(problem: string): void
  /** Returns the server that has the key; undefined while there are no servers. */
  nodeOf(key: string): MemcachedNode | undefined
  /** Returns whether any server is healthy, after each of them was tried. */
  healthy(): boolean
  /** Returns why no server is healthy. */
  problem(): string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  close(): Promise<void>
}

export interface NodeListOptions extends NodeOptions {
  /** Called when a server is lost or is back or cannot be reached at first. */
  readonly onWarning: (text: string) => void
}

export function createNodeList(options: NodeListOptions): NodeList {
  const { deadlineMs, onWarning } = options
  const listeners: ((healthy: boolean) => void)[] = []
  /** By address; an address that occurs twice in the list is one node. */
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
    if (!closed && !leaving.has(node)) warn(node)
    checkHealth()
  }

  function warn(node: MemcachedNode): void {
    if (!node.connection.healthy) {
      lost.add(node)
      onWarning(`${node.problem()}; calls with a key of this server fail until it is back`)
    } else if (lost.delete(node)) onWarning(`memcached ${node.address.text} is back`)
  }

  /** Closes the node after the deadline, when its running calls are answered or rejected. */
  function leave(node: MemcachedNode): void {
    lost.delete(node)
    leaving.set(
      node,
      setTimeout(() => {
        // The node is removed only after it is closed; otherwise its end would be reported as an outage.
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
