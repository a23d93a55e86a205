import type { LogFields } from '@tollway/chassis/log/log.ts'
import { MemcachedNode, type NodeOptions } from './node.ts'
import { pickServer, type ServerAddress } from './server-list.ts'

interface NodeListOptions extends NodeOptions {
  readonly onWarning: (message: string, fields: LogFields) => void
}

/** The servers in the order of the list, each with a connection. */
export class NodeList {
  readonly #options: NodeListOptions
  readonly #listeners: ((healthy: boolean) => void)[] = []
  /** The nodes by address; an address that occurs twice in the list is one node. */
  #nodes = new Map<string, MemcachedNode>()
  #order: readonly MemcachedNode[] = []
  /** The nodes of removed servers; each closes after the deadline of its running calls. */
  readonly #leaving = new Map<MemcachedNode, NodeJS.Timeout>()
  /** The nodes that were reported as lost and not yet as back. */
  readonly #lost = new Set<MemcachedNode>()
  #noServers = 'the servers of memcached are not known yet'
  #healthy = false
  #closed = false

  constructor(options: NodeListOptions) {
    this.#options = options
  }

  /** Whether any server is healthy. Before the first one is, false until each server was tried. */
  get healthy(): boolean {
    return this.#healthy
  }

  /** Returns the problem of the first unhealthy server, or why there are no servers; empty otherwise. */
  problem(): string {
    if (this.#order.length === 0) return this.#noServers
    return this.#order.find(node => !node.connection.healthy)?.problem() ?? ''
  }

  /** Sets the reason that is reported while there are no servers. */
  setProblem(problem: string): void {
    this.#noServers = problem
  }

  /**
   * Keeps the connections of servers that remain; closes others after the deadline of their running calls.
   */
  set(servers: readonly ServerAddress[]): void {
    const former = this.#nodes
    this.#nodes = new Map()
    this.#order = servers.map(address => {
      const known = this.#nodes.get(address.text) ?? former.get(address.text)
      const node = known ?? new MemcachedNode(address, this.#options, changed => this.#onChange(changed))
      this.#nodes.set(address.text, node)
      return node
    })
    for (const [text, node] of former) if (!this.#nodes.has(text)) this.#leave(node)
    this.#checkHealth()
  }

  /** Returns the server that has the key; undefined while there are no servers. */
  findNode(key: string): MemcachedNode | undefined {
    return this.#order[pickServer(key, this.#order.length)]
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener)
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#leaving.values()) clearTimeout(timer)
    await Promise.all([...this.#nodes.values(), ...this.#leaving.keys()].map(node => node.close()))
  }

  #onChange(node: MemcachedNode): void {
    if (!this.#closed && !this.#leaving.has(node)) this.#warn(node)
    this.#checkHealth()
  }

  #warn(node: MemcachedNode): void {
    const { onWarning } = this.#options
    if (!node.connection.healthy) {
      this.#lost.add(node)
      onWarning('connect memcached failed', { server: node.address.text, reason: node.problem() })
    } else if (this.#lost.delete(node)) onWarning('reconnect memcached', { server: node.address.text })
  }

  #checkHealth(): void {
    const connections = [...this.#nodes.values()].map(node => node.connection)
    const isKnown = this.#healthy || connections.every(({ tried }) => tried)
    const healthy = isKnown && connections.some(connection => connection.healthy)
    if (healthy === this.#healthy) return
    this.#healthy = healthy
    for (const listener of this.#listeners) listener(healthy)
  }

  /** Closes the node after the deadline: by then its running calls are answered or rejected. */
  #leave(node: MemcachedNode): void {
    this.#lost.delete(node)
    const timer = setTimeout(() => {
      // The node stays in `#leaving` until it is closed, so that its end is not reported as an outage.
      void node.close().then(() => this.#leaving.delete(node))
    }, this.#options.deadlineMs)
    this.#leaving.set(node, timer)
  }
}
