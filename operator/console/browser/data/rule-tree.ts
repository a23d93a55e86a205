/** A node of the tree of rules: a descriptor, or one of several limits of a descriptor. */
export interface RuleNode<Rule> {
  /** The last part of the path. */
  readonly label: string
  readonly path: readonly string[]
  /** The rule of this node; undefined for a descriptor without a limit. */
  rule: Rule | undefined
  readonly children: RuleNode<Rule>[]
}

/**
 * Builds the tree of rules from their paths. Descriptors without a limit are in the tree if a rule is below
 * them.
 */
export function buildRuleTree<Rule extends { readonly path: readonly string[] }>(
  rules: readonly Rule[],
): readonly RuleNode<Rule>[] {
  const root: RuleNode<Rule> = { label: '', path: [], rule: undefined, children: [] }
  const nodes = new Map([['[]', root]])
  function getNode(path: readonly string[]): RuleNode<Rule> {
    const key = JSON.stringify(path)
    const known = nodes.get(key)
    if (known !== undefined) return known
    const node: RuleNode<Rule> = { label: path.at(-1) ?? '', path, rule: undefined, children: [] }
    nodes.set(key, node)
    getNode(path.slice(0, -1)).children.push(node)
    return node
  }
  for (const rule of rules) getNode(rule.path).rule = rule
  return root.children
}

/** Returns all nodes from top to bottom, each with its depth in the tree. */
export function flatten<Rule>(
  nodes: readonly RuleNode<Rule>[],
  depth = 0,
): readonly { readonly node: RuleNode<Rule>; readonly depth: number }[] {
  return nodes.flatMap(node => [{ node, depth }, ...flatten(node.children, depth + 1)])
}
