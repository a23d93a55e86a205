/** A node of the tree of rules: a descriptor, or one of several limits of a descriptor. */
export interface RuleNode<Rule> {
  readonly label: string
  readonly path: readonly string[]
  /** The rule of this node; undefined for a descriptor without a limit. */
  rule: Rule | undefined
  readonly children: RuleNode<Rule>[]
}

/** Builds the tree from the paths of rules. It has a descriptor without a limit if a rule is below it. */
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

/** Returns the nodes from top to bottom. */
export function flatten<Rule>(
  nodes: readonly RuleNode<Rule>[],
  depth = 0,
): readonly { readonly node: RuleNode<Rule>; readonly depth: number }[] {
  return nodes.flatMap(node => [{ node, depth }, ...flatten(node.children, depth + 1)])
}
