/** Alerts, their notifications, and the rules that open them. */
import { queryOptions } from '@tanstack/react-query'
import { client, ok } from '@/api/client'
import { byPages, PAGE } from '@/api/queries/paging'

export interface AlertFilter {
  state?: '' | 'active' | 'open' | 'acknowledged' | 'snoozed' | 'expected' | 'resolved'
  severity?: '' | 'info' | 'warning' | 'critical'
  benchmark?: string
  text?: string
}

export const alertsQuery = (filter: AlertFilter = {}) =>
  byPages(['alerts', 'list', filter], (cursor) =>
    ok(client.GET('/api/v1/alerts', { params: { query: { ...filter, limit: PAGE, cursor } } })),
  )

export const alertQuery = (alert: string) =>
  queryOptions({
    queryKey: ['alerts', 'one', alert],
    queryFn: () => ok(client.GET('/api/v1/alerts/{alert}', { params: { path: { alert } } })),
  })

export interface NoticeFilter {
  alert?: string
  state?: '' | 'waiting' | 'sending' | 'sent' | 'given-up'
}

export const noticesQuery = (filter: NoticeFilter = {}) =>
  queryOptions({
    queryKey: ['alerts', 'notices', filter],
    queryFn: () => ok(client.GET('/api/v1/notices', { params: { query: { ...filter, limit: PAGE } } })),
  })

export const alertRulesQuery = () =>
  queryOptions({ queryKey: ['alerts', 'rules'], queryFn: () => ok(client.GET('/api/v1/alert-rules')) })
