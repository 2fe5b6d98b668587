import { useNavigate } from '@tanstack/react-router'
import { useCallback, useMemo } from 'react'
import { useChoices } from '@/app/choices'
import { Chart } from '@/charts/Chart'
import { lanesOf } from '@/pages/series/lanes'
import { chartHeight, trendOption } from '@/pages/series/option'
import { type Trend as Drawn, described, trendOf } from '@/pages/series/trend'
import type { Alert, KnownFinding, Point, SeriesRecord } from '@/watching/types'
import { answerWords, moment, seriesName } from '@/watching/words'

interface TrendProps {
  series: SeriesRecord
  points: Point[]
  findings: readonly KnownFinding[]
  alerts: readonly Alert[] /** Only from this moment on. */
  begin?: number
}

/** The chart of a series; a click on a result, a change or an alert leads to it. */
export function Trend({ series, points, findings, alerts, begin }: TrendProps) {
  const { text, choose } = useChoices()
  const navigate = useNavigate()
  const picked = text('point')
  const trend = useMemo(() => trendOf(series, points, findings, begin), [series, points, findings, begin])
  const lanes = useMemo(() => lanesOf(trend, alerts), [trend, alerts])
  const option = useMemo(() => trendOption(trend, lanes, picked), [trend, lanes, picked])
  const rows = useMemo(() => rowsOf(trend), [trend])
  const onPick = useCallback(
    ({ data }: { data: unknown }) => {
      const [kind, id] = keyOf(data)
      if (kind === 'point') choose({ point: Number(id) })
      else if (kind === 'finding')
        void navigate({ to: '/series/$series', params: { series: series.id }, search: true, hash: `finding-${id}` })
      else if (kind === 'alert') void navigate({ to: '/alerts/$alert', params: { alert: id } })
    },
    [choose, navigate, series.id],
  )
  return (
    <Chart
      title={seriesName(series)}
      says={described(trend)}
      option={option}
      rows={rows}
      points={trend.points.length}
      height={chartHeight(lanes.length)}
      onPick={onPick}
    />
  )
}

function keyOf(data: unknown): [string, string] {
  const key = typeof data === 'object' && data !== null && 'key' in data ? String(data.key) : ''
  return [key.slice(0, key.indexOf(':')), key.slice(key.indexOf(':') + 1)]
}

function rowsOf(trend: Drawn) {
  const changed = new Map<number, string[]>()
  for (const one of trend.around) changed.set(one.point.id, [...(changed.get(one.point.id) ?? []), ...one.says])
  const found = new Map(trend.turns.map((one) => [one.first_bad.id, `${answerWords(one.finding)}, ${one.state}`]))
  return {
    columns: [
      'time_utc',
      `value${trend.unit ? ` (${trend.unit})` : ''}`,
      'standard_error',
      'verdict',
      'job',
      'change',
      'changed_around',
    ],
    rows: trend.points.map((one) => [
      moment(one.at),
      one.value,
      one.standard_error ?? null,
      one.verdict,
      one.job ?? null,
      found.get(one.id) ?? '',
      (changed.get(one.id) ?? []).join('; '),
    ]),
  }
}
