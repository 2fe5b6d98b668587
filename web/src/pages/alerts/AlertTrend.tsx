import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { oneSeriesQuery, pointsQuery } from '@/api/queries/series'
import { fetchCharts } from '@/charts/Chart'
import { Trend } from '@/pages/series/Trend'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import type { Alert, SeriesFull } from '@/watching/types'

fetchCharts()

/** The first series that an alert is about, drawn. */
export function AlertTrend({ alert }: { alert: Alert }) {
  const series = alert.members.find((one) => one.finding && one.series)?.series
  return series ? <OfSeries alert={alert} series={series} /> : null
}

function OfSeries({ alert, series }: { alert: Alert; series: string }) {
  const full = useQuery(oneSeriesQuery(series))
  return (
    <Card
      title="The series"
      aside={
        <Link to="/series/$series" params={{ series }}>
          all about it
        </Link>
      }
    >
      <Asked query={full} what="the series">
        {(found) => <Drawn alert={alert} full={found} />}
      </Asked>
    </Card>
  )
}

function Drawn({ alert, full }: { alert: Alert; full: SeriesFull }) {
  const { id, points, newest } = full.series
  const found = useQuery({ ...pointsQuery(id, points, newest), placeholderData: keepPreviousData })
  const alerts = useMemo(() => [alert], [alert])
  return (
    <Asked query={found} what="its results">
      {(all) => <Trend series={full.series} points={all} findings={full.findings} alerts={alerts} />}
    </Asked>
  )
}
