import type { PrinterColumn } from '../resource-kind.ts'

/**
 * Returns the column of `kubectl get` for the condition Ready.
 *
 * @param description when a resource of the kind is ready
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
  description: 'The age of the resource.',
}

/**
 * The last columns of a kind that service processes enforce; `feedStatus` defines the fields that they show.
 */
export const feedColumns: readonly PrinterColumn[] = [
  readyColumn('Whether every process enforces the current version of the resource.'),
  {
    name: 'Enforced',
    type: 'string',
    jsonPath: '.status.enforced',
    description: 'The number of processes that enforce it, and the number of processes that serve calls.',
  },
  ageColumn,
]
