import type { PrinterColumn } from './resource-kind.ts'

/**
 * What `kubectl get` shows of the condition Ready.
 *
 * @param description what makes a resource of the kind ready.
 */
export function readyColumn(description: string): PrinterColumn {
  return {
    name: 'Ready',
    type: 'string',
    jsonPath: '.status.conditions[?(@.type=="Ready")].status',
    description,
  }
}

export const ageColumn: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Since when it exists.',
}

/** The last columns of a kind that is fed to processes; `feedStatus` is where they are from. */
export const feedColumns: readonly PrinterColumn[] = [
  readyColumn('Whether every process enforces the resource as it is.'),
  {
    name: 'Enforced',
    type: 'string',
    jsonPath: '.status.enforced',
    description: 'The processes that enforce it, of those that take calls.',
  },
  ageColumn,
]
