/** A rule with the rules that continue its name. */
export interface RuleNode<Rule> {
  /** The part of the name that its parent does not have. */
  readonly label: string
  readonly rule: Rule
  readonly children: readonly RuleNode<Rule>[]
}

interface OpenNode<Rule> {
  readonly label: string
  readonly name: string
  readonly rule: Rule
  readonly children: OpenNode<Rule>[]
}

/**
 * Arranges rules by their names. Values of descriptors may contain dots, so that only the name of another
 * rule is a parent.
 */
export function ruleTree<Rule extends { readonly rule: string }>(
  domain: string,
  rules: readonly Rule[],
): readonly RuleNode<Rule>[] {
  const roots: OpenNode<Rule>[] = []
  const path: OpenNode<Rule>[] = []
  for (const rule of [...rules].sort((a, b) => compareNames(a.rule, b.rule))) {
    while (path.length > 0 && !rule.rule.startsWith(`${path.at(-1)?.name}.`)) path.pop()
    const parent = path.at(-1)
    const above = parent?.name ?? domain
    const label = rule.rule.startsWith(`${above}.`) ? rule.rule.slice(above.length + 1) : rule.rule
    const node = { label, name: rule.rule, rule, children: [] }
    ;(parent?.children ?? roots).push(node)
    path.push(node)
  }
  return roots
}

/** A name comes directly before those that continue it: the dot sorts before all other characters. */
function compareNames(a: string, b: string): number {
  const [first, second] = [a.replaceAll('.', '\0'), b.replaceAll('.', '\0')]
  return first < second ? -1 : first > second ? 1 : 0
}

/** The nodes from top to bottom, with their depths. */
export function flatten<Rule>(
  nodes: readonly RuleNode<Rule>[],
  depth = 0,
): readonly { readonly node: RuleNode<Rule>; readonly depth: number }[] {
  return nodes.flatMap(node => [{ node, depth }, ...flatten(node.children, depth + 1)])
}
