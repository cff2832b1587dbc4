/* SPDX-License-Identifier: Apache-2.0
 *
 * Included before all else where the real ZooKeeper coordinator is compiled for the simulator: what
 * it calls of lib/io gets other names, so that a program may hold the real loop as well.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_LOOP_NAMES_H
#define FOLIOT_TESTS_SIM_SIM_LOOP_NAMES_H

#define loop_now_us           sim_loop_now_us
#define loop_timer_init       sim_loop_timer_init
#define loop_timer_start      sim_loop_timer_start
#define loop_timer_start_in   sim_loop_timer_start_in
#define loop_timer_stop       sim_loop_timer_stop
#define loop_task_init        sim_loop_task_init
#define loop_post             sim_loop_post
#define loop_unpost           sim_loop_unpost
#define clock_wall_ms         sim_loop_wall_ms
#define entropy_u64           sim_loop_entropy_u64
#define zk_link_open          sim_zk_link_open
#define zk_link_call          sim_zk_link_call
#define zk_link_close         sim_zk_link_close
#define zk_link_call_count    sim_zk_link_call_count
#define zk_link_unknown_count sim_zk_link_unknown_count
#define zk_link_take_log      sim_zk_link_take_log

#endif
