import { maxLinkTextCharacters } from '../domain/input/request-bodies.ts'
import { maxCustomCharacters, maxCustomFields } from '../domain/input/search.ts'
import { maxSearchDays, transactionStatuses } from '../domain/transaction/transaction-search.ts'
import type { QueryParameter } from './endpoint.ts'

const instant = {
  type: 'string',
  pattern:
    '^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,3})?)?(Z|[+-][0-9]{2}:[0-9]{2}))?$',
  description: 'A date, which is its start in UTC, or a time of RFC 3339',
}

/** The filters by a range of time. */
export const createdFilters: readonly QueryParameter[] = [
  {
    name: 'filter[created][from]',
    description: 'Only what was created at this time or later. The list is then in the order of creation.',
    required: false,
    schema: instant,
  },
  {
    name: 'filter[created][to]',
    description: `Only what was created before this time, at most ${maxSearchDays} days after the start.`,
    required: false,
    schema: instant,
  },
]

/** The filters of a list of transactions, as `transactionSearch` reads them. */
export const transactionFilters: readonly QueryParameter[] = [
  {
    name: 'filter[reference]',
    description: 'Only transactions whose payment link had exactly this reference.',
    required: false,
    schema: { type: 'string', maxLength: maxLinkTextCharacters },
  },
  ...createdFilters,
  {
    name: 'filter[status]',
    description:
      'Only transactions of which an amount is pending, or was captured, refunded, voided or disputed, or that ' +
      'were declined. Needs filter[created][from].',
    required: false,
    schema: { enum: transactionStatuses },
  },
  {
    name: 'filter[custom]',
    description:
      `Only transactions whose custom data has these fields with these values, as filter[custom][order]=A-17. At ` +
      `most ${maxCustomFields} fields of the first level; values are compared as text. Needs filter[created][from].`,
    required: false,
    style: 'deepObject',
    schema: {
      type: 'object',
      maxProperties: maxCustomFields,
      additionalProperties: { type: 'string', maxLength: maxCustomCharacters },
    },
  },
]
